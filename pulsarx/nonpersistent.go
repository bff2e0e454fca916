package pulsarx

import "strings"

// nonPersistent tells whether a topic keeps nothing.
func nonPersistent(topic string) bool { return strings.HasPrefix(topic, "non-persistent://") }
