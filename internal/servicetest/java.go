package servicetest

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Java runs a class of a Maven project of the caller's testdata, and returns what it prints. The project is built once for what it is,
// with its dependencies from Maven Central, into the user's cache folder: its pom puts the build where the property build.folder says.
// It needs mvn on the PATH, and Java 17 or newer there or at JAVA_HOME or DEBEZIUM_JAVA_HOME. Where it was not built yet, and
// REQUIRE_SERVICES=1 is not set, the test is skipped.
func Java(tb testing.TB, project, class string, args ...string) []byte {
	tb.Helper()
	build := javaBuild(tb, project)
	libraries, err := os.ReadFile(filepath.Join(build, "classpath.txt"))
	if err != nil {
		tb.Fatal(err)
	}
	classpath := filepath.Join(build, "classes") + string(os.PathListSeparator) + strings.TrimSpace(string(libraries))
	cmd := exec.CommandContext(tb.Context(), javaCommand(tb), append([]string{
		"-Xms1g", "-Xmx4g", "--add-opens=java.base/java.util=ALL-UNNAMED", "--add-opens=java.base/java.lang=ALL-UNNAMED", "-cp", classpath, class,
	}, args...)...)
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	if err := cmd.Run(); err != nil {
		tb.Fatalf("java %s: %v\n%s", class, err, problems.String())
	}
	return out.Bytes()
}

// javaBuild returns the folder that the project is built in, and builds it when it is not.
func javaBuild(tb testing.TB, project string) string {
	tb.Helper()
	name := filepath.Join("maven", filepath.Base(project)+"-"+folderDigest(tb, project))
	return install(tb, name, project+", built by Maven", func(work string) *exec.Cmd {
		// With -U what could not be fetched is asked for again.
		mvn := exec.CommandContext(tb.Context(), "mvn", "-q", "-B", "-U", "-f", project, "-Dbuild.folder="+work, "compile",
			"dependency:build-classpath", "-Dmdep.outputFile="+filepath.Join(work, "classpath.txt"))
		mvn.Env = append(os.Environ(), "JAVA_HOME="+filepath.Dir(filepath.Dir(javaCommand(tb))))
		return mvn
	})
}

// folderDigest identifies the files of a folder.
func folderDigest(tb testing.TB, folder string) string {
	tb.Helper()
	h := sha256.New()
	if err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		h.Write([]byte(path))
		h.Write(content)
		return err
	}); err != nil {
		tb.Fatal(err)
	}
	return hex.EncodeToString(h.Sum(nil)[:6])
}

// javaCommand is the java that a program of the environment runs on.
func javaCommand(tb testing.TB) string {
	tb.Helper()
	for _, home := range []string{os.Getenv("JAVA_HOME"), os.Getenv("DEBEZIUM_JAVA_HOME")} {
		path := filepath.Join(home, "bin", "java")
		if _, err := os.Stat(path); err == nil && home != "" {
			return path
		}
	}
	path, err := exec.LookPath("java")
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	if err != nil {
		lacks(tb, "there is no java")
	}
	return path
}
