//go:build !unix || solaris || aix

package servicetest

import "os"

// lockFile does nothing: tests that want the same at once may install it twice, and try again where that fails.
func lockFile(*os.File) error { return nil }
