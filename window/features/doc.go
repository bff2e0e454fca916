// Package features has "the last N minutes" of each key, read while it is written: what a model is asked with, the same as what it was
// trained with.
//
//	clicks, err := features.New(func(c Click) string { return c.User }, time.Hour, aggregate.Count[Click](), features.Options{})
//	clicks.Add(partition, at, click)                       // as events come
//	n, ok := clicks.Get(user, now, 5*time.Minute)          // as requests come, from any goroutine
//
// A Table keeps the events of the longest span for each key, merged by their instants, and answers for any shorter span at any time: Get has
// the events of [at-span, at], both ends with it, that have been added so far. The answer is exact and has no steps: it is not made of
// slices that move on once in a while.
//
// # Training
//
// The same reads over a replay give a training set without a look into the future: add the events in the order of the topic, and read for
// each row at its time before what is later is added.
//
//	time      10:00     10:02   10:03         10:05
//	events    a         b                     c
//	row                         10:04: a, b         (c is not known yet, whenever it is read in a replay)
//
// What a row has when all of its events have come is the result of window.PerEvent at that time, which is the other way to a training set:
// one row for each event of the topic.
//
// # Memory
//
// An event is kept until the watermark is its span and Options.History past it. The watermark is the least of the partitions' latest
// timestamps, and moves by records alone. Options bounds the keys and the instants of each; an event beyond is window.Refused.
package features
