// Package pulsartest is a Pulsar broker for tests: it runs in the test's own process, speaks Pulsar's binary protocol on a local
// port, and unmodified clients connect to it.
package pulsartest
