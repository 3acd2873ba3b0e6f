package installcmd_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/cli/clitest"
	"slipway.dev/slipway/internal/must"
)

// goodValues are those of a tunnel.
const goodValues = `
global:
  platform:
    url: https://slipway.example.com
    accountId: 5f1e2d3c4b5a69788796a5b4
    userToken: {token: slw_key1_canary3f9b0c1d7e}
  runtime: {name: prod}
`

func writeValues(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "values.yaml")
	must.Do(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

// TestHelmValidateOffline: R42: exit codes, and everything that is wrong at once.
func TestHelmValidateOffline(t *testing.T) {
	clitest.Clean(t)
	good, bad := writeValues(t, goodValues), writeValues(t, strings.NewReplacer("prod", "Prod", "url: https", "url: ftp").Replace(goodValues))
	chart, other := otherChart(t), writeValues(t, strings.Replace(goodValues, "name: prod", "name: newer", 1))
	for _, tt := range []struct {
		line string
		code int
		want []string
	}{
		{"helm validate --offline --values " + good, 0, []string{"The values are good for the runtime prod, reached by tunnel", "skipped: no server was contacted"}},
		{"helm validate --offline --namespace slipway --version 0.1.0 --values " + good, 0, []string{"good"}},
		{"helm validate --offline --values " + bad, 1, []string{"ValueInvalid", "global.runtime.name", "global.platform.url", "2 errors in the values"}},
		{"helm validate --offline --namespace Slip_way --values " + good, 1, []string{"NamespaceInvalid"}},
		{"helm validate --offline", 2, []string{"--values"}},
		// Another version is checked by its own schema and templates.
		{"helm validate --offline --version 9.9.9 --chart " + chart + " --values " + good, 0, []string{"good"}},
		{"helm validate --offline --version 8.8.8 --chart " + chart + " --values " + good, 1, []string{"VersionInvalid", "has the version 9.9.9", "1 error in the values"}},
		{"helm validate --offline --version 9.9.9 --chart " + chart + " --values " + other, 1, []string{"VersionInvalid", "--version 9.9.9", "does not accept the values: see global.runtime.name"}},
		{"helm validate --offline --version newest --values " + good, 1, []string{"VersionInvalid", "is no version of a chart"}},
		{"helm validate --offline --values " + good + ".none", 2, []string{"read the values"}},
		{"helm validate --offline -o xml --values " + good, 2, []string{"neither text nor json"}},
		{"helm validate --offline --hook --values " + good, 2, []string{"keep one of them"}},
		{"helm validate --kubeconfig /none --values " + good, 2, []string{"kubeconfig", "--offline"}},
	} {
		got := clitest.Run(t, tt.line)
		if got.Code != tt.code {
			t.Errorf("%s: %+v", tt.line, got)
		}
		for _, want := range tt.want {
			if !strings.Contains(got.Stdout+got.Stderr, want) {
				t.Errorf("%s: %q is not in %+v", tt.line, want, got)
			}
		}
		if strings.Contains(got.Stdout+got.Stderr, "canary") {
			t.Errorf("%s: the token is shown: %+v", tt.line, got)
		}
	}
}

// otherChart is the chart with another version, whose schema allows one name only.
func otherChart(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "gitops-runtime")
	must.Do(t, os.CopyFS(dir, os.DirFS("../../../charts/gitops-runtime")))
	for file, change := range map[string][2]string{
		"Chart.yaml": {"\nversion: 0.1.0\n", "\nversion: 9.9.9\n"}, "values.schema.json": {`^[a-z]([-a-z0-9]{0,36}[a-z0-9])?$`, `^prod$`},
	} {
		text, err := os.ReadFile(filepath.Join(dir, file))
		must.Do(t, err)
		changed := strings.Replace(string(text), change[0], change[1], 1)
		if changed == string(text) {
			t.Fatalf("%s has no %s", file, change[0])
		}
		must.Do(t, os.WriteFile(filepath.Join(dir, file), []byte(changed), 0o600))
	}
	return dir
}

// TestHelmValidateJSON: R42: programs get code, subject, message and fix.
func TestHelmValidateJSON(t *testing.T) {
	clitest.Clean(t)
	got := clitest.Run(t, "helm validate --offline -o json --values "+writeValues(t, strings.Replace(goodValues, "prod", "Prod", 1)))
	var report struct {
		Mode     string
		Findings []struct{ Code, Severity, Subject, Message, Fix string }
	}
	if err := json.Unmarshal([]byte(got.Stdout), &report); err != nil || got.Code != 1 {
		t.Fatalf("%v: %+v", err, got)
	}
	if len(report.Findings) != 1 || report.Findings[0].Subject != "global.runtime.name" || report.Findings[0].Message == "" || report.Findings[0].Severity != "error" || report.Findings[0].Fix == "" {
		t.Errorf("found %+v", report)
	}
}
