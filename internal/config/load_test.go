package config_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/tools/txtar"

	"slipway.dev/slipway/internal/archives"
	"slipway.dev/slipway/internal/config"
	"slipway.dev/slipway/internal/must"
)

// load reads options as the command does, with the flags split at blanks.
func load(t *testing.T, flags string, environ ...string) (*config.Edge, error) {
	t.Helper()
	loaded, err := config.LoadEdge(config.Sources{
		Args:     strings.Fields(flags),
		Switches: []string{"help", "print-config"},
		Environ:  environ,
	})
	return loaded.Edge, err
}

// mustLoad loads options that have to be right.
func mustLoad(t *testing.T, flags string, environ ...string) *config.Edge {
	t.Helper()
	edge, err := load(t, flags, environ...)
	if err != nil {
		t.Fatalf("load: %v", err)
	}
	if err := edge.Validate(); err != nil {
		t.Fatalf("validate: %v", err)
	}
	return edge
}

// inDir makes a directory with the given files, alternating name and content,
// the working directory, so that messages have short paths.
func inDir(t *testing.T, files ...string) {
	t.Helper()
	t.Chdir(t.TempDir())
	for i := 0; i < len(files); i += 2 {
		must.Do(t, os.MkdirAll(filepath.Dir(files[i]), 0o755))
		must.Do(t, os.WriteFile(files[i], []byte(files[i+1]), 0o600))
	}
}

func TestErrors(t *testing.T) {
	archives.Each(t, "testdata/errors/*.txtar", func(t *testing.T, archive *txtar.Archive) {
		inDir(t)
		var environ, want []string
		flags := ""
		for _, file := range archive.Files {
			text := strings.TrimSpace(string(file.Data))
			switch file.Name {
			case "env":
				environ = strings.Split(text, "\n")
			case "flags":
				flags += " " + text
			case "want":
				want = strings.Split(text, "\n")
			default:
				flags = "--configFile=" + file.Name + flags
				must.Do(t, os.WriteFile(file.Name, file.Data, 0o600))
			}
		}
		edge, err := load(t, flags, environ...)
		if edge != nil {
			t.Error("an error came with options")
		}
		compareLines(t, err, want)
	})
}

// compareLines compares the joined errors, one to a line.
func compareLines(t *testing.T, err error, want []string) {
	t.Helper()
	got := []string{"no error"}
	if err != nil {
		got = strings.Split(err.Error(), "\n")
	}
	for i := range max(len(got), len(want)) {
		g, w := "(nothing)", "(nothing)"
		if i < len(got) {
			g = got[i]
		}
		if i < len(want) {
			w = want[i]
		}
		if g != w {
			t.Errorf("line %d:\n got %s\nwant %s", i+1, g, w)
		}
	}
}

func TestLayers(t *testing.T) {
	inDir(t, "edge.yaml", `
log: {level: error, format: json}
health: {address: ":1"}
entryPoints:
  web: {address: ":2"}
  other: {address: ":3"}
providers:
  file: {filename: a}
  kubernetesIngress: {ingressClass: file, labelSelector: file, token: file, namespaces: [a, b]}
`)
	edge := mustLoad(t,
		"--configfile edge.yaml --log.level=debug --providers.kubernetesingress.ingressclass=flag --providers.file=false",
		"SLIPWAY_LOG_LEVEL=warn", "SLIPWAY_HEALTH_ADDRESS=:4",
		"SLIPWAY_ENTRYPOINTS_WEB_ADDRESS=:5", "SLIPWAY_ENTRYPOINTS_MORE_ADDRESS=:6",
		"SLIPWAY_PROVIDERS_KUBERNETESINGRESS_LABELSELECTOR=env", "SLIPWAY_PROVIDERS_KUBERNETESINGRESS_TOKEN=env")
	for _, c := range []struct{ name, got, want string }{
		{"flag over environment over file", edge.Log.Level, "debug"},
		{"file over default", edge.Log.Format, "json"},
		{"environment over file", edge.Health.Address, ":4"},
		{"environment over file, one member", edge.EntryPoints["web"].Address, ":5"},
		{"other member of the file stays", edge.EntryPoints["other"].Address, ":3"},
		{"new member of the environment", edge.EntryPoints["more"].Address, ":6"},
		{"flag over file in a provider", edge.Providers.KubernetesIngress.IngressClass, "flag"},
		{"environment over file in a provider", edge.Providers.KubernetesIngress.LabelSelector, "env"},
		{"environment over file, secret", edge.Providers.KubernetesIngress.Token.Reveal(), "env"},
		{"file in a provider", strings.Join(edge.Providers.KubernetesIngress.Namespaces, " "), "a b"},
	} {
		if c.got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, c.got, c.want)
		}
	}
	if edge.Providers.File != nil {
		t.Error("a flag did not turn off the provider that the file sets")
	}
}

func TestSwitches(t *testing.T) {
	const ingress = "--providers.kubernetesingress"
	for _, c := range []struct {
		name, file, flags string
		on                bool
	}{
		{"off by default", "", "", false},
		{"flag without value", "", ingress, true},
		{"flag true", "", ingress + "=true", true},
		{"flag 1", "", ingress + "=1", true},
		{"flag false", "", ingress + "=false", false},
		{"any option", "", ingress + ".ingressclass=x", true},
		{"only a secret", "", ingress + ".token=x", true},
		{"false beats its options", "", ingress + "=false " + ingress + ".token=x " + ingress + ".ingressclass=x", false},
		{"empty mapping", "providers: {kubernetesIngress: {}}", "", true},
		{"empty group below", "providers: {kubernetesIngress: {ingressEndpoint: {}}}", "", true},
		{"file true", "providers: {kubernetesIngress: true}", "", true},
		{"file false, flag option", "providers: {kubernetesIngress: false}", ingress + ".ingressclass=x", false},
		{"file false, flag true", "providers: {kubernetesIngress: false}", ingress, true},
		{"file on, flag off", "providers: {kubernetesIngress: {ingressClass: x}}", ingress + "=false", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			inDir(t, "edge.yaml", c.file)
			edge := mustLoad(t, "--configFile=edge.yaml "+c.flags)
			if on := edge.Providers.KubernetesIngress != nil; on != c.on {
				t.Errorf("on: got %v, want %v", on, c.on)
			}
			if k := edge.Providers.KubernetesIngress; k != nil && !k.StrictPrefixMatching {
				t.Error("strictPrefixMatching is not on by default")
			}
		})
	}
}

func TestEntryPointDefault(t *testing.T) {
	if got := mustLoad(t, "").EntryPoints; len(got) != 1 || got["web"].Address != ":8080" {
		t.Errorf("without any: got %v", got)
	}
	if got := mustLoad(t, "--entryPoints.webSecure.address=:8443").EntryPoints; len(got) != 1 || got["websecure"].Address != ":8443" {
		t.Errorf("with one: got %v", got)
	}
	inDir(t, "edge.yaml", "entryPoints: {web: {}}")
	edge := must.Get(load(t, "--configFile=edge.yaml"))(t)
	compareLines(t, edge.Validate(), []string{"entryPoints.web.address is missing: write it as :port or ip:port"})
}

func TestRepeatedFlags(t *testing.T) {
	edge := mustLoad(t, "--log.level=debug --log.level=warn --providers.kubernetesingress.namespaces=a,b --providers.kubernetesingress.namespaces c --providers.kubernetesingress.namespaces=")
	if edge.Log.Level != "warn" {
		t.Errorf("the last value does not count: %q", edge.Log.Level)
	}
	if got := strings.Join(edge.Providers.KubernetesIngress.Namespaces, " "); got != "a b c" {
		t.Errorf("a list does not grow: %q", got)
	}
}

// Variables that are not options of the server are left alone.
func TestServiceLinks(t *testing.T) {
	links := []string{
		"SLIPWAY_SERVICE_HOST=10.0.0.1",
		"SLIPWAY_SERVICE_PORT=80",
		"SLIPWAY_SERVICE_PORT_HTTP=80",
		"SLIPWAY_PORT=tcp://10.0.0.1:80",
		"SLIPWAY_PORT_80_TCP=tcp://10.0.0.1:80",
		"SLIPWAY_PORT_80_TCP_PROTO=tcp",
		"SLIPWAY_PORT_80_TCP_PORT=80",
		"SLIPWAY_PORT_80_TCP_ADDR=10.0.0.1",
		"SLIPWAY_EDGE_SERVICE_HOST=fd00::1",
		"SLIPWAY_EDGE_SERVICE_PORT_WEB_SECURE=443",
		"SLIPWAY_EDGE_PORT=udp://[fd00::1]:443",
		"SLIPWAY_EDGE_PORT_443_UDP=udp://[fd00::1]:443",
		"SLIPWAY_EDGE_PORT_443_UDP_PROTO=udp",
		"SLIPWAY_EDGE_PORT_443_UDP_PORT=443",
		"SLIPWAY_EDGE_PORT_443_UDP_ADDR=fd00::1",
		"SLIPWAY_EDGE_PORT_132_SCTP=sctp://10.0.0.1:132",
		"SLIPWAY_PROVIDERS_FILE_PORT=tcp://10.0.0.1:80",
		// For the commands of people, in the same shell.
		"SLIPWAY_API_KEY=slw_x",
		"SLIPWAY_CONFIG=/etc/slipway.yaml",
		"SLIPWAY_RUNTIME=one",
		"SLIPWAY_URL=https://slipway.example.com",
	}
	edge := mustLoad(t, "", append(links, "SLIPWAY_LOG_LEVEL=warn", "OTHER=1")...)
	if edge.Log.Level != "warn" {
		t.Error("an option beside the links was not read")
	}
	for _, variable := range []string{
		"SLIPWAY_ADMIN_PORT=9000",
		"SLIPWAY_EDGE_SERVICE_HOST=edge",
		"SLIPWAY_SERVICE_PORT=http",
		"SLIPWAY_PORT_80_TCP_PROTO=http",
		"SLIPWAY_PORT_80=tcp://10.0.0.1:80",
		"SLIPWAY_EDGE=10.0.0.1",
		"SLIPWAY_=",
	} {
		if _, err := load(t, "", variable); err == nil {
			t.Errorf("%s was ignored", variable)
		}
	}
}

func TestSearch(t *testing.T) {
	inDir(t, "user/slipway/edge.yml", "log: {level: warn}", "etc/edge.toml", "log.level = 'error'",
		"both/edge.yaml", "", "both/edge.toml", "", "empty/x", "", "named.yaml", "log: {level: debug}")
	for _, c := range []struct {
		name, dirs, flags, env, want, file string
	}{
		{"none", "empty missing named.yaml", "", "", "info", ""},
		{"first directory wins", "user/slipway etc", "", "", "warn", "user/slipway/edge.yml"},
		{"second directory", "empty etc", "", "", "error", "etc/edge.toml"},
		{"flag", "etc", "--configFile=named.yaml", "", "debug", "named.yaml"},
		{"environment", "etc", "", "SLIPWAY_CONFIGFILE=named.yaml", "debug", "named.yaml"},
		{"flag over environment", "etc", "--CONFIGFILE user/slipway/edge.yml", "SLIPWAY_CONFIGFILE=named.yaml", "warn", "user/slipway/edge.yml"},
	} {
		t.Run(c.name, func(t *testing.T) {
			loaded := must.Get(config.LoadEdge(config.Sources{
				Args: strings.Fields(c.flags), Environ: []string{c.env}, Dirs: strings.Fields(c.dirs)}))(t)
			if loaded.Edge.Log.Level != c.want || loaded.File != c.file {
				t.Errorf("got level %q of file %q", loaded.Edge.Log.Level, loaded.File)
			}
		})
	}
	_, err := config.LoadEdge(config.Sources{Dirs: []string{"both"}})
	compareLines(t, err, []string{"there are several configuration files: both/edge.yaml, both/edge.toml: keep one, or choose with --configFile"})

	got := config.SearchDirs([]string{"A=b", "XDG_CONFIG_HOME=/home/me/.config"})
	if strings.Join(got, " ") != "/home/me/.config/slipway /etc/slipway" {
		t.Errorf("directories: %q", got)
	}
	if got := config.SearchDirs([]string{"XDG_CONFIG_HOME=relative"}); strings.Join(got, " ") != "/etc/slipway" {
		t.Errorf("directories without a valid XDG_CONFIG_HOME: %q", got)
	}
}

func TestUnreadableFiles(t *testing.T) {
	inDir(t, "large.yaml", "#"+strings.Repeat("x", 1<<20), "fits.yaml", "#"+strings.Repeat("x", 1<<20-1))
	must.Do(t, os.Mkdir("dir.yaml", 0o755))
	must.Do(t, syscall.Mkfifo("pipe.yaml", 0o600))
	mustLoad(t, "--configFile=fits.yaml")
	for name, want := range map[string]string{
		"large.yaml":   "configuration file large.yaml: larger than 1048576 bytes",
		"missing.yaml": "configuration file missing.yaml: no such file or directory",
		"dir.yaml":     "configuration file dir.yaml: not a regular file",
		"pipe.yaml":    "configuration file pipe.yaml: not a regular file",
	} {
		_, err := load(t, "--configFile="+name)
		compareLines(t, err, []string{want})
	}
}

func TestManyProblems(t *testing.T) {
	var content strings.Builder
	for i := range 60 {
		fmt.Fprintf(&content, "unknown%d: 1\n", i)
	}
	inDir(t, "edge.yaml", content.String())
	_, err := load(t, "--configFile=edge.yaml")
	var joined interface{ Unwrap() []error }
	if !errors.As(err, &joined) || len(joined.Unwrap()) != 51 {
		t.Fatalf("got %v", err)
	}
	last := joined.Unwrap()[50].Error()
	if last != "there may be more problems in edge.yaml:50: the rest was not read" {
		t.Errorf("got %q", last)
	}
}

func TestDuration(t *testing.T) {
	for text, want := range map[string]string{"2": "2s", "0": "0s", "1m30s": "1m30s", "250ms": "250ms"} {
		edge := mustLoad(t, "--providers.kubernetesingress.throttleduration="+text)
		if got := edge.Providers.KubernetesIngress.ThrottleDuration.String(); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
}

func TestControlCharacters(t *testing.T) {
	_, err := load(t, "", "SLIPWAY_PROVIDERS_KUBERNETESINGRESS_TOKEN=do-not-show\n")
	compareLines(t, err, []string{"SLIPWAY_PROVIDERS_KUBERNETESINGRESS_TOKEN in the environment: the value has a control character or is not UTF-8; look for a line break at its end"})
}
