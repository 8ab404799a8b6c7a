select max(celsius) as warmest from {{ ref('clean') }}
