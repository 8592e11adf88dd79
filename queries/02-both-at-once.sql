-- question: Which frames show both?
-- sample:   The cereal box and the toy robot side by side, hand-held camera; the first three such frames.
-- expect:   Six rows, two a frame, one box each.
SELECT frames WHERE entity = 'cereal-box' AND entity = 'toy-robot' AND video LIKE 'walk/%'
ORDER BY frame, entity LIMIT 6;
