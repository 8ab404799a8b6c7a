// What a tier says of itself, and the parts of it that tell how good it is.

export interface Status {
  name: string;
  url: string;
  up_seconds: number;
  predictor: string;
  cache: { bytes: number; bytes_max: number; paths: number; paths_known: number };
  disk: { bytes: number; bytes_max: number; paths: number } | null;
  asked: number;
  hits: number;
  hit_rate: number | null;
  hits_by_listing: number;
  hits_absent: number;
  joined_prefetch: number;
  fetched: number;
  prefetched: number;
  prefetched_used: number;
  prefetched_wasted: number;
  prefetches_right: number | null;
  waiting: number;
  running: number;
  links: number;
  [name: string]: unknown;
}

export interface Ratio {
  name: string;
  part: number | null;
  says: string;
}

function part(of: number, all: number): number | null {
  return all > 0 ? of / all : null;
}

export function ratios(status: Status): Ratio[] {
  return [
    { name: "Hits", part: part(status.hits, status.asked), says: "of what somebody waited for, was here already" },
    {
      name: "By listings",
      part: part(status.hits_by_listing, status.hits),
      says: "of these, known from a directory's listing",
    },
    { name: "Joined a prefetch", part: part(status.joined_prefetch, status.asked), says: "was on its way already" },
    {
      name: `Prefetches right (${status.predictor})`,
      part: part(status.prefetched_used, status.prefetched),
      says: "of what was fetched ahead, somebody used",
    },
    {
      name: "Prefetches wasted",
      part: part(status.prefetched_wasted, status.prefetched),
      says: "of what was fetched ahead, went unused",
    },
  ];
}
