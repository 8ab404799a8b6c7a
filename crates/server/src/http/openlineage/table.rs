//! The endpoints of `OpenLineage` and of Marquez's API.

use super::super::table::{Endpoint, Run, Verb, read};
use super::{data, jobs};
use crate::access::needs::INGEST;

const fn events(
    path: &'static str,
    name: &'static str,
    answer: &'static str,
    summary: &'static str,
) -> Endpoint {
    Endpoint {
        verb: Verb::Post,
        path,
        needs: INGEST,
        name,
        summary,
        parameters: &["sync"],
        body: Some(("application/json", "OpenLineageEvent")),
        answer,
        counts_as: 16,
        run: Run::Receive,
    }
}

/// Endpoints that [`super::super::table::all`] includes.
pub(in super::super) const ENDPOINTS: [Endpoint; 13] = [
    events(
        "/api/v1/lineage",
        "receiveEvent",
        "OpenLineageTaken",
        "An event of OpenLineage: RunEvent, JobEvent or DatasetEvent; or a list of them",
    ),
    events(
        "/api/v1/lineage/batch",
        "receiveEvents",
        "OpenLineageTaken",
        "A list of events of OpenLineage: those that can be taken are",
    ),
    read(
        "/api/v1/namespaces",
        "namespaces",
        7,
        &["page_limit", "page_offset", "uid", "gids"],
        "MarquezNamespaces",
        Run::Read(data::namespaces),
        "Namespaces of jobs and datasets",
    ),
    read(
        "/api/v1/namespaces/{namespace}",
        "namespace",
        4,
        &["in_namespace", "uid", "gids"],
        "MarquezNamespace",
        Run::Read(data::namespace),
        "One namespace",
    ),
    read(
        "/api/v1/namespaces/{namespace}/datasets",
        "datasets",
        6,
        &["in_namespace", "page_limit", "page_offset", "uid", "gids"],
        "MarquezDatasets",
        Run::Read(data::datasets),
        "The datasets of a namespace",
    ),
    read(
        "/api/v1/namespaces/{namespace}/datasets/{dataset}",
        "dataset",
        4,
        &["in_namespace", "in_dataset", "uid", "gids"],
        "MarquezDataset",
        Run::Read(data::dataset),
        "One dataset",
    ),
    read(
        "/api/v1/namespaces/{namespace}/datasets/{dataset}/versions",
        "datasetVersions",
        6,
        &[
            "in_namespace",
            "in_dataset",
            "page_limit",
            "page_offset",
            "uid",
            "gids",
        ],
        "MarquezVersions",
        Run::Read(data::versions),
        "What has written a dataset, the latest first",
    ),
    read(
        "/api/v1/jobs",
        "allJobs",
        7,
        &["page_limit", "page_offset", "uid", "gids"],
        "MarquezJobs",
        Run::Read(jobs::all),
        "The jobs of all namespaces",
    ),
    read(
        "/api/v1/namespaces/{namespace}/jobs",
        "jobs",
        6,
        &["in_namespace", "page_limit", "page_offset", "uid", "gids"],
        "MarquezJobs",
        Run::Read(jobs::list),
        "The jobs of a namespace",
    ),
    read(
        "/api/v1/namespaces/{namespace}/jobs/{job}",
        "job",
        4,
        &["in_namespace", "in_job", "uid", "gids"],
        "MarquezJob",
        Run::Read(jobs::one),
        "One job, with its latest runs",
    ),
    read(
        "/api/v1/namespaces/{namespace}/jobs/{job}/runs",
        "jobRuns",
        6,
        &[
            "in_namespace",
            "in_job",
            "page_limit",
            "page_offset",
            "uid",
            "gids",
        ],
        "MarquezRuns",
        Run::Read(jobs::runs),
        "The runs of a job, the latest first",
    ),
    read(
        "/api/v1/jobs/runs/{id}",
        "jobRun",
        4,
        &["in_run", "uid", "gids"],
        "MarquezRun",
        Run::Read(jobs::run),
        "One run",
    ),
    read(
        "/api/v1/jobs/runs/{id}/facets",
        "runFacets",
        4,
        &["in_run", "facets_of", "uid", "gids"],
        "MarquezFacets",
        Run::Read(jobs::facets),
        "The facets of a run, or of its job",
    ),
];
