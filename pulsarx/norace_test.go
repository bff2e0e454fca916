//go:build !race

package pulsarx_test

const raceDetector = false
