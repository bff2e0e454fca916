// Package spill keeps the windows of keys on disk that have no room in memory, for window.Options.Spill, in Pebble.
//
//	disk, err := spill.Open(folder)
//	defer disk.Close()
//	op, err := window.New(key, assigner, aggregate, window.Options{Spill: disk, MaxResident: 1_000_000})
//
// What it keeps is scratch: the operator's snapshots have all of it, and a folder is emptied when it is opened. So nothing is logged or
// synced, and what is written stays in a buffer, by a hash of its id: what is read or replaced soon never comes to Pebble, which gets the rest
// of a full buffer at once.
package spill
