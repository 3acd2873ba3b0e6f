package up

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
)

func executable(t *testing.T, path string) string {
	t.Helper()
	put(t, filepath.Dir(path), filepath.Base(path), "#!/bin/false\n")
	must.Do(t, os.Chmod(path, 0o755))
	return path
}

// checkout makes a source checkout whose Makefile runs recipe.
func checkout(t *testing.T, module, recipe string) string {
	t.Helper()
	root := t.TempDir()
	put(t, root, "go.mod", "module "+module+"\n\ngo 1.26.0\n")
	put(t, root, "Makefile", buildTarget+":\n\t"+recipe+"\n")
	return root
}

const (
	ourModule = "slipway.dev/slipway"
	// buildRecipe is a build that is over at once.
	buildRecipe = "@echo compiling the cluster; mkdir -p bin; echo > bin/slipway-devcluster; chmod +x bin/slipway-devcluster"
)

func obtain(t *testing.T, ctx context.Context, program string) (string, string, error) {
	t.Helper()
	shown := &programs.Output{}
	found, err := obtainDevcluster(ctx, program, filepath.Join(t.TempDir(), "bin"), UI{Progress: shown})
	return found, shown.String(), err
}

func TestObtainBesideTheExecutable(t *testing.T) {
	dir, links := t.TempDir(), t.TempDir()
	t.Setenv("PATH", filepath.Dir(executable(t, filepath.Join(t.TempDir(), devclusterBinary))))
	want := executable(t, filepath.Join(dir, devclusterBinary))
	executable(t, filepath.Join(dir, "slipway"))
	link := filepath.Join(links, "slipway")
	must.Do(t, os.Symlink(filepath.Join(dir, "slipway"), link))
	for _, program := range []string{filepath.Join(dir, "slipway"), link} {
		if found, _, err := obtain(t, t.Context(), program); found != want || err != nil {
			t.Errorf("from %s: got %q, %v; want %q", program, found, err, want)
		}
	}
}

func TestObtainFromPath(t *testing.T) {
	want := executable(t, filepath.Join(t.TempDir(), devclusterBinary))
	t.Setenv("PATH", filepath.Dir(want))
	if found, _, err := obtain(t, t.Context(), filepath.Join(t.TempDir(), "slipway")); found != want || err != nil {
		t.Errorf("got %q, %v; want %q", found, err, want)
	}
}

func TestObtainBuilds(t *testing.T) {
	t.Run("above the executable", func(t *testing.T) {
		root := checkout(t, ourModule, buildRecipe)
		t.Chdir(t.TempDir())
		found, shown, err := obtain(t, t.Context(), filepath.Join(root, "bin", "slipway"))
		if want := filepath.Join(root, "bin", devclusterBinary); found != want || err != nil {
			t.Fatalf("got %q, %v; want %q", found, err, want)
		}
		for _, text := range []string{"several minutes", "make -C " + root + " " + buildTarget, "compiling the cluster"} {
			if !strings.Contains(shown, text) {
				t.Errorf("%q is missing in:\n%s", text, shown)
			}
		}
	})
	t.Run("above the working directory", func(t *testing.T) {
		root := checkout(t, ourModule, buildRecipe)
		below := filepath.Join(root, "docs", "decisions")
		must.Do(t, os.MkdirAll(below, 0o755))
		t.Chdir(below)
		found, _, err := obtain(t, t.Context(), filepath.Join(t.TempDir(), "slipway"))
		if want := filepath.Join(root, "bin", devclusterBinary); found != want || err != nil {
			t.Errorf("got %q, %v; want %q", found, err, want)
		}
	})
}

func TestObtainFails(t *testing.T) {
	for _, test := range []struct {
		name, module, recipe string
		says                 []string
	}{
		{"another project's Makefile", "example.com/other", "@touch ran", []string{"is missing", "make build-devcluster", "PATH"}},
		{"build fails", ourModule, "@false", []string{"failed", "output above"}},
		{"build makes nothing", ourModule, "@true", []string{"has not made"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			root := checkout(t, test.module, test.recipe)
			t.Chdir(root)
			_, _, err := obtain(t, t.Context(), filepath.Join(t.TempDir(), "slipway"))
			requireText(t, err, test.says...)
			if _, err := os.Stat(filepath.Join(root, "ran")); err == nil {
				t.Error("the Makefile of another project was run")
			}
		})
	}
}

// An interrupted build ends with everything that make has started.
func TestObtainInterrupted(t *testing.T) {
	root := checkout(t, ourModule, "@echo compiling; sleep 600")
	t.Chdir(root)
	ctx, cancel := context.WithCancel(t.Context())
	shown := &programs.Output{}
	ended := make(chan error, 1)
	go func() {
		_, err := obtainDevcluster(ctx, filepath.Join(root, "bin", "slipway"), t.TempDir(), UI{Progress: shown})
		ended <- err
	}()
	shown.WaitFor(t, "compiling\n")
	cancel()
	if err := programs.Receive(t, ended, "end"); !errors.Is(err, errStopped) {
		t.Errorf("got %v, want %v", err, errStopped)
	}
}
