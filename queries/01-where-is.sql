-- question: Where and when was it seen?
-- sample:   The blue delivery van, in the whole archive.
-- expect:   Three moments: gate/evening, gate/morning and road/noon. Not gate/noon, where a blue van without
--           the round emblem passes.
SELECT moments WHERE entity = 'blue-van' ORDER BY video, start_time;
