package supplychain_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/must"
)

// database writes a vulnerability database with one entry, in the format of
// https://go.dev/doc/security/vuln/database: a function of a module that
// ociimage uses, vulnerable in all versions before 99.
func database(t *testing.T, function string) string {
	t.Helper()
	const id, modified, module = "GO-2999-0001", "2999-01-01T00:00:00Z", "oras.land/oras-go/v2"
	type object = map[string]any
	type list = []any
	folder := t.TempDir()
	for name, value := range map[string]any{
		"index/db.json":      object{"modified": modified},
		"index/modules.json": list{object{"path": module, "vulns": list{object{"id": id, "modified": modified, "fixed": "99.0.0"}}}},
		"index/vulns.json":   list{object{"id": id, "modified": modified}},
		"ID/" + id + ".json": object{
			"schema_version": "1.3.1", "id": id, "modified": modified, "published": modified, "summary": "a planted vulnerability", "details": "a planted vulnerability",
			"database_specific": object{"url": "https://vuln.example.com/" + id},
			"affected": list{object{
				"package":            object{"name": module, "ecosystem": "Go"},
				"ranges":             list{object{"type": "SEMVER", "events": list{object{"introduced": "0"}, object{"fixed": "99.0.0"}}}},
				"ecosystem_specific": object{"imports": list{object{"path": module + "/content", "symbols": list{function}}}},
			}},
		},
	} {
		text, err := json.Marshal(value)
		must.Do(t, err)
		path := filepath.Join(folder, filepath.FromSlash(name))
		must.Do(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must.Do(t, os.WriteFile(path, text, 0o600))
	}
	return folder
}

// TestVulnerabilities runs what make vuln runs, for a small program: a function
// that it calls is found by its place, one that it does not call is not, and a
// database that cannot be read is an error with the next step.
func TestVulnerabilities(t *testing.T) {
	for _, one := range []struct {
		name, database string
		status         int
		want           []string
	}{
		{"called", database(t, "NewDescriptorFromBytes"), 3, []string{"GO-2999-0001", "internal/tools/ociimage/image.go", "content.NewDescriptorFromBytes"}},
		{"not called", database(t, "FetchAll"), 0, []string{"Your code is affected by 0 vulnerabilities"}},
		{"no such folder", "file://" + t.TempDir() + "/none", 1, []string{"make vuln VULN_DB="}},
		{"not reachable", "http://127.0.0.1:1", 1, []string{"make vuln VULN_DB="}},
	} {
		t.Run(one.name, func(t *testing.T) {
			command := exec.CommandContext(t.Context(), "../../scripts/vuln.sh", "./internal/tools/ociimage")
			command.Env = append(os.Environ(), "VULN_DB="+one.database)
			out, err := command.CombinedOutput()
			if command.ProcessState == nil || command.ProcessState.ExitCode() != one.status {
				t.Errorf("the error is %v, and the status %d was expected", err, one.status)
			}
			for _, want := range one.want {
				if !strings.Contains(string(out), want) {
					t.Errorf("the output has no %q:\n%s", want, out)
				}
			}
		})
	}
}
