-- question: Who came in between two visits?
-- sample:   The courier leaves the yard and comes back more than five seconds later.
-- expect:   The dotted umbrella and the striped cat.
WITH visits AS (
  SELECT video, end_time AS left_at,
         lead(start_time) OVER (PARTITION BY video ORDER BY start_time) AS back_at
  FROM moments
  WHERE entity = 'courier'
)
SELECT visits.video, round(left_at, 1) AS left_at, round(back_at, 1) AS back_at,
       m.entity, round(m.start_time, 1) AS seen_from
FROM visits
JOIN moments AS m ON m.video = visits.video AND m.start_time < back_at AND m.end_time > left_at
WHERE back_at - left_at > 5 AND m.entity <> 'courier'
ORDER BY visits.video, seen_from, m.entity;
