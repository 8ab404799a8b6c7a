// An OpenID provider on loopback for scripts/oidc/check.py: node-oidc-provider with its own pages for logins, which accept any password.
//
// Usage: node provider.mjs PORT KEYS REDIRECT
//
// KEYS is a file with the private keys (JWKS); it is created with new keys if it does not exist. REDIRECT is the callback of the server.
// Besides the provider's paths, `POST /test/sign` signs any header and claims with the provider's first key, as no provider would.
import { createPrivateKey, generateKeyPairSync, randomUUID, sign } from "node:crypto";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import Provider from "oidc-provider";

const [port, keysFile, redirect] = process.argv.slice(2);
const issuer = `http://127.0.0.1:${port}`;

function newKey(alg, kind, options) {
  const jwk = generateKeyPairSync(kind, options).privateKey.export({ format: "jwk" });
  return { ...jwk, alg, use: "sig", kid: randomUUID() };
}

if (!existsSync(keysFile)) {
  const keys = [
    newKey("RS256", "rsa", { modulusLength: 2048 }),
    newKey("ES256", "ec", { namedCurve: "P-256" }),
    newKey("EdDSA", "ed25519"),
  ];
  writeFileSync(keysFile, JSON.stringify({ keys }), { mode: 0o600 });
}
const jwks = JSON.parse(readFileSync(keysFile, "utf8"));

const command = {
  token_endpoint_auth_method: "none",
  grant_types: ["urn:ietf:params:oauth:grant-type:device_code", "refresh_token"],
  response_types: [],
  redirect_uris: [],
};
const provider = new Provider(issuer, {
  jwks,
  clients: [
    { client_id: "esker", client_secret: "a secret: 50% & more", redirect_uris: [redirect], id_token_signed_response_alg: "ES256" },
    { client_id: "esker-command", ...command },
    { client_id: "other-program", ...command },
  ],
  // The name of a login is the name of the user.
  findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: `subject of ${id}`, preferred_username: id }) }),
  claims: { openid: ["sub"], profile: ["preferred_username"] },
  conformIdTokenClaims: false,
  cookies: { keys: [randomUUID()] },
  features: { deviceFlow: { enabled: true }, devInteractions: { enabled: true } },
  issueRefreshToken: (_, client) => client.grantTypeAllowed("refresh_token"),
  enabledJWA: { idTokenSigningAlgValues: ["RS256", "ES256", "EdDSA"] },
});

provider.use(async (ctx, next) => {
  if (ctx.method !== "POST" || ctx.path !== "/test/sign") return next();
  const parts = [];
  for await (const part of ctx.req) parts.push(part);
  const { header, claims } = JSON.parse(Buffer.concat(parts).toString());
  const [key] = jwks.keys;
  const encode = (json) => Buffer.from(JSON.stringify(json)).toString("base64url");
  const text = `${encode({ alg: key.alg, kid: key.kid, ...header })}.${encode(claims)}`;
  const signature = sign("sha256", Buffer.from(text), createPrivateKey({ key, format: "jwk" }));
  ctx.body = `${text}.${signature.toString("base64url")}`;
});
provider.on("server_error", (_, e) => console.error(e));

provider.listen(Number(port), "127.0.0.1", () => console.log("ready"));
