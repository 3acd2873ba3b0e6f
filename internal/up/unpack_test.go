package up

import (
	"bytes"
	"compress/gzip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
)

// pack writes a program as a release has it, and returns the path of slipway
// beside it.
func pack(t *testing.T, dir, script string) string {
	t.Helper()
	var packed bytes.Buffer
	writer := gzip.NewWriter(&packed)
	_, err := writer.Write([]byte("#!/bin/sh\n" + script + "\n"))
	must.Do(t, err)
	must.Do(t, writer.Close())
	put(t, dir, packedDevcluster(), packed.String())
	return filepath.Join(dir, "slipway")
}

// TestObtainUnpacks: the packed file of a release beside the program is unpacked
// once, before PATH is searched, and again when it is another one.
func TestObtainUnpacks(t *testing.T) {
	dir, to := t.TempDir(), filepath.Join(t.TempDir(), "state", "bin")
	t.Setenv("PATH", filepath.Dir(executable(t, filepath.Join(t.TempDir(), devclusterBinary)))+":"+os.Getenv("PATH"))
	program := pack(t, dir, "echo first")
	get := func() (path, shown string) {
		t.Helper()
		out := &programs.Output{}
		return must.Get(obtainDevcluster(t.Context(), program, to, UI{Progress: out}))(t), out.String()
	}
	first, shown := get()
	if output, err := exec.CommandContext(t.Context(), first).Output(); string(output) != "first\n" || err != nil || !strings.Contains(shown, "unpacking") {
		t.Errorf("%s prints %q: %v; shown: %s", first, output, err, shown)
	}
	if again, shown := get(); again != first || shown != "" {
		t.Errorf("the second time: %s, %q", again, shown)
	}
	pack(t, dir, "echo second")
	second, _ := get()
	if output, err := exec.CommandContext(t.Context(), second).Output(); string(output) != "second\n" || err != nil {
		t.Errorf("%s prints %q: %v", second, output, err)
	}
	if left := must.Get(os.ReadDir(to))(t); len(left) != 1 {
		t.Errorf("%d files are left", len(left))
	}
}

// TestObtainDamaged: an archive that is cut off gives no program.
func TestObtainDamaged(t *testing.T) {
	dir, to := t.TempDir(), filepath.Join(t.TempDir(), "bin")
	program := pack(t, dir, strings.Repeat("echo something\n", 1000))
	name := filepath.Join(dir, packedDevcluster())
	content := must.Get(os.ReadFile(name))(t)
	must.Do(t, os.WriteFile(name, content[:len(content)-8], 0o600))
	_, err := obtainDevcluster(t.Context(), program, to, UI{Progress: &programs.Output{}})
	requireText(t, err, "unexpected EOF", "SHA256SUMS")
	if left := must.Get(os.ReadDir(to))(t); len(left) != 0 {
		t.Errorf("%d files are left", len(left))
	}
}
