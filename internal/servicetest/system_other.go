//go:build !linux

package servicetest

import (
	"os"
	"syscall"
)

// withParent does nothing where the system cannot end a child with its parent.
func withParent() *syscall.SysProcAttr { return nil }

// lockFile does nothing: tests that want the same at once may install it twice.
func lockFile(*os.File) error { return nil }
