//go:build race

package pulsarx_test

// raceDetector is on: pulsar-client-go v0.21.0 has data races of its own where a connection breaks while it makes a producer.
const raceDetector = true
