select id, kelvin - 273 as celsius from {{ ref('raw') }}
