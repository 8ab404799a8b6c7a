"""Puts the files of a folder into a new bucket; folders without files become objects whose keys end in `/`."""

import os
import sys

import boto3

endpoint, bucket, root = sys.argv[1:]
client = boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1", aws_access_key_id="x", aws_secret_access_key="y")
client.create_bucket(Bucket=bucket)
for folder, _, names in os.walk(root):
    below = os.path.relpath(folder, root)
    prefix = "" if below == "." else below + "/"
    if prefix and not names:
        client.put_object(Bucket=bucket, Key=prefix)
    for name in names:
        with open(os.path.join(folder, name), "rb") as file:
            client.put_object(Bucket=bucket, Key=prefix + name, Body=file)
# A key that is a file and a directory, and one with an empty name.
for key in ["both", "both/inner", "double//slash"]:
    client.put_object(Bucket=bucket, Key=key, Body=b"x")
