// Package filelock keeps other processes, and other goroutines, out while something is made that all of them want.
package filelock
