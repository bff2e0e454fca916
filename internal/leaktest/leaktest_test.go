package leaktest

import (
	"strings"
	"testing"
	"time"
)

func TestLeft(t *testing.T) {
	stop := make(chan struct{})
	go blocked(stop)
	if err := left(0); err == nil || !strings.Contains(err.Error(), "leaktest.blocked") {
		t.Errorf("a goroutine that is left: got %v", err)
	}
	time.AfterFunc(2*time.Second, func() { close(stop) })
	if err := left(time.Minute); err != nil {
		t.Errorf("a goroutine that ends in time: got %v", err)
	}
}

func blocked(stop chan struct{}) { <-stop }
