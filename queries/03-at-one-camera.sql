-- question: Did it pass this camera in this time?
-- sample:   The courier, in the yard, during the first twelve seconds.
-- expect:   From second 1 to 9; in between a pillar hides the courier for a moment.
SELECT moments WHERE entity = 'courier' AND video LIKE 'yard/%' AND time BETWEEN 0 AND 12
ORDER BY start_time;
