-- question: What is the longest time that it went unseen between two visits?
-- sample:   Within one clip, for everything in the album that came at least twice.
-- expect:   The red hatchback on road/noon (about nine seconds) and the courier in the yard (about nine).
WITH visits AS (
  SELECT entity, video, end_time AS left_at,
         lead(start_time) OVER (PARTITION BY entity, video ORDER BY start_time) AS back_at
  FROM moments
)
SELECT entity, video, round(left_at, 1) AS left_at, round(back_at, 1) AS back_at,
       round(back_at - left_at, 1) AS unseen_seconds
FROM visits
WHERE back_at IS NOT NULL
QUALIFY row_number() OVER (PARTITION BY entity ORDER BY back_at - left_at DESC) = 1
ORDER BY unseen_seconds DESC, entity;
