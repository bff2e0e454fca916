// Package window computes event-time windows: events come out of order, and results come when they are complete.
package window
