package programs

import (
	"errors"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"slipway.dev/slipway/internal/must"
)

// moduleFolders has the folders of modules, so that each is looked up once in a process.
var moduleFolders sync.Map

// ModuleFolder returns the folder of a Go module that the repository requires, for files of upstream that tests use as
// they are.
func ModuleFolder(t testing.TB, module string) string {
	t.Helper()
	if known, ok := moduleFolders.Load(module); ok {
		return known.(string)
	}
	output, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	if failed := (*exec.ExitError)(nil); errors.As(err, &failed) {
		t.Fatalf("find the module %s: %v: %s", module, err, failed.Stderr)
	}
	folder := strings.TrimSpace(string(must.Get(output, err)(t)))
	moduleFolders.Store(module, folder)
	return folder
}
