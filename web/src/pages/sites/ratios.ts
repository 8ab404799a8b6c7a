// Counters of a tier of the site cache, and ratios of them.

/** The part of a tier's status that the page uses. */
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

/** A ratio between 0 and 1, or null if it has no denominator. */
export interface Ratio {
  name: string;
  part: number | null;
  description: string;
}

function part(count: number, total: number): number | null {
  return total > 0 ? count / total : null;
}

/** Returns the ratios that tell how useful a tier is. */
export function ratios(status: Status): Ratio[] {
  return [
    { name: "Hits", part: part(status.hits, status.asked), description: "of all requests were answered by the cache" },
    {
      name: "By listings",
      part: part(status.hits_by_listing, status.hits),
      description: "of the hits were answered by a directory's listing",
    },
    {
      name: "Joined a prefetch",
      part: part(status.joined_prefetch, status.asked),
      description: "of all requests waited for a prefetch in flight",
    },
    {
      name: `Useful prefetches (${status.predictor})`,
      part: part(status.prefetched_used, status.prefetched),
      description: "of the prefetches were used by a client",
    },
    {
      name: "Wasted prefetches",
      part: part(status.prefetched_wasted, status.prefetched),
      description: "of the prefetches left the cache unused",
    },
  ];
}
