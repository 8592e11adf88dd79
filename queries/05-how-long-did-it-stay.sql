-- question: How long did it stay?
-- sample:   Seconds in view and number of visits, for everything in the album and every clip.
-- expect:   The parked red hatchback in walk/lane stays longest of the cars; passing cars stay two or three
--           seconds.
SELECT entity, video, count(*) AS visits, round(sum(end_time - start_time), 1) AS seconds
FROM moments
GROUP BY entity, video
ORDER BY entity, video;
