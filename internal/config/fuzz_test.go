package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/config"
	"slipway.dev/slipway/internal/must"
)

// reload prints options and loads what was printed: it must be the same.
func reload(t *testing.T, edge *config.Edge) {
	t.Helper()
	printed, err := edge.YAML()
	if err != nil {
		t.Fatalf("print: %v", err)
	}
	path := filepath.Join(t.TempDir(), "printed.yaml")
	must.Do(t, os.WriteFile(path, printed, 0o600))
	loaded, err := config.LoadEdge(config.Sources{Args: []string{"--configFile=" + path}})
	if err != nil {
		t.Fatalf("load what was printed: %v\n%s", err, printed)
	}
	again := must.Get(loaded.Edge.YAML())(t)
	if string(again) != string(printed) {
		t.Fatalf("printed\n%s\nand again\n%s", printed, again)
	}
}

func FuzzFile(f *testing.F) {
	f.Add(true, "providers:\n  kubernetesIngress: {namespaces: [a, b], token: x}\nentryPoints: {web: {address: ':80'}}\n")
	f.Add(true, "log: &a {level: debug}\nhealth: *a\n")
	f.Add(true, "a: {b: {c: [1, 2, {d: !!binary aGk=}]}}\n---\n? [x]\n: y\n")
	f.Add(false, "[providers.kubernetesIngress]\nnamespaces = ['a', 'b']\nthrottleDuration = 3\n")
	f.Add(false, "a.b.\"c.d\" = 1\n[[x]]\ny = 1979-05-27\n")
	f.Fuzz(func(t *testing.T, yaml bool, content string) {
		name := "edge.toml"
		if yaml {
			name = "edge.yaml"
		}
		path := filepath.Join(t.TempDir(), name)
		must.Do(t, os.WriteFile(path, []byte(content), 0o600))
		loaded, err := config.LoadEdge(config.Sources{Args: []string{"--configFile=" + path}})
		if (err == nil) != (loaded.Edge != nil) {
			t.Fatalf("options %v with error %v", loaded.Edge, err)
		}
		if err == nil {
			_ = loaded.Edge.Validate()
			reload(t, loaded.Edge)
		}
	})
}

func FuzzFlags(f *testing.F) {
	f.Add("--log.level=debug\n--log.level\nwarn\n--providers.kubernetesingress\n--help")
	f.Add("--providers.kubernetesingress.namespaces=a,b\n--providers.kubernetesIngress.namespaces=c")
	f.Add("--entrypoints.web].address=:80\n--entrypoints.[.address=:1\n--=\n--\n-x\n--.=.")
	f.Fuzz(func(t *testing.T, lines string) {
		args := strings.Split(lines, "\n")
		for _, arg := range args {
			if strings.Contains(strings.ToLower(arg), "configfile") {
				return // it would read files by any name
			}
		}
		loaded, err := config.LoadEdge(config.Sources{Args: args, Switches: []string{"help", "print-config"}})
		if (err == nil) != (loaded.Edge != nil) {
			t.Fatalf("options %v with error %v", loaded.Edge, err)
		}
		if err == nil {
			_ = loaded.Edge.Validate()
			reload(t, loaded.Edge)
		}
	})
}
