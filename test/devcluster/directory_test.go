package devcluster_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
)

func TestDirectoryInUse(t *testing.T) {
	t.Parallel()
	cluster := kubetest.Shared(t)
	tests := []struct {
		name  string
		flags []string
	}{
		{"directory first", []string{"--dir", cluster.Dir, "--stop-with-stdin"}},
		{"directory last", []string{"--stop-with-stdin", "--dir", cluster.Dir}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			code, stdout, stderr := runBinary(t, test.flags)
			if code != 1 {
				t.Errorf("exit code %d, want 1", code)
			}
			for _, want := range []string{cluster.Dir, strconv.Itoa(cluster.PID())} {
				if !strings.Contains(stderr, want) {
					t.Errorf("the message does not name %s: %s", want, stderr)
				}
			}
			if stdout != "" {
				t.Errorf("printed %q as if it were ready", stdout)
			}
		})
	}
	// The first one has not noticed.
	if _, err := cluster.Client.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Error(err)
	}
}

// runBinary runs a cluster that is expected to end by itself.
func runBinary(t *testing.T, flags []string) (code int, stdout, stderr string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, kubetest.Binary(t), flags...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	// Open until it has ended, so that it has no reason to end from here.
	stdin, err := cmd.StdinPipe()
	must.Do(t, err)
	defer stdin.Close()
	err = cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

// A user who can read a private key is the administrator.
func TestSecretFilesArePrivate(t *testing.T) {
	t.Parallel()
	cluster := kubetest.Shared(t)
	var keys []string
	err := filepath.WalkDir(cluster.Dir, func(path string, entry fs.DirEntry, err error) error {
		// Files come and go while the cluster runs.
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		info, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		secret, err := holdsSecret(path, info)
		if secret {
			keys = append(keys, path)
			if mode := info.Mode().Perm(); mode != 0o600 {
				t.Errorf("%s has mode %o, want 600", path, mode)
			}
		}
		return err
	})
	must.Do(t, err)
	t.Logf("files with secrets: %v", keys)
	// At least the authority's key, the API server's, that of service
	// accounts, and the kubeconfig.
	if len(keys) < 4 {
		t.Errorf("found only %v: does this test still look in the right place?", keys)
	}
}

// holdsSecret recognises keys by their content and the kubeconfig by its name.
// No key is larger than a page or two.
func holdsSecret(path string, info fs.FileInfo) (bool, error) {
	if strings.HasPrefix(filepath.Base(path), "kubeconfig") {
		return true, nil
	}
	if info.Size() > 16<<10 {
		return false, nil
	}
	content, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return bytes.Contains(content, []byte("PRIVATE KEY")), err
}
