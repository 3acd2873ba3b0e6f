package cli_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/cli"
	"slipway.dev/slipway/internal/cli/clitest"
	"slipway.dev/slipway/internal/config"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/observe"
	"slipway.dev/slipway/internal/programs"
)

// TestPrintConfigChecks: what the edge would refuse at its start is refused by
// --print-config too, and messages name what to write.
func TestPrintConfigChecks(t *testing.T) {
	clitest.Clean(t)
	dir := t.TempDir()
	broken := filepath.Join(dir, "broken.toml")
	must.Do(t, os.WriteFile(broken, []byte("[providers.kubernetesIngress]\n  endpoint: \"http://s3cret\"\n"), 0o600))
	const dns = "--certificatesResolvers.le.acme.dnsChallenge."
	const updates = "--providers.kubernetesIngress " + dns + "provider=rfc2136 " + dns + "rfc2136.nameserver=ns1 " + dns + "rfc2136.tsigKey=edge " + dns + "rfc2136.tsigSecretFile="
	const accounts = "--providers.kubernetesIngress " + dns + "provider=acme-dns " + dns + "acmeDNS.apiBase=https://auth.example " + dns + "acmeDNS.accountsFile="
	for line, wants := range map[string][]string{
		"--providers.kubernetesIngress " + dns + "provider=route53": {"certificatesResolvers.le.acme.dnsChallenge.provider is \"route53\": choose one of rfc2136, acme-dns"},
		updates + dir + "/no": {"certificatesResolvers.le.acme.dnsChallenge: open " + dir + "/no: no such file"},
		updates + broken:      {"certificatesResolvers.le.acme.dnsChallenge: " + broken + " has no TSIG secret"},
		accounts + broken:     {"certificatesResolvers.le.acme.dnsChallenge: " + broken + ": it has no accounts"},
		"--providers.kubernetesIngress.labelSelector=A!B":               {"providers.kubernetesIngress.labelSelector \"A!B\"", "write one such as app=shop"},
		"--providers.kubernetesIngress.namespaces=a_b":                  {"providers.kubernetesIngress.namespaces", "a_b"},
		"--providers.kubernetesIngress.certAuthFilePath=" + dir + "/no": {"providers.kubernetesIngress.certAuthFilePath: open " + dir + "/no: no such file"},
		"--providers.kubernetesIngress.certAuthFilePath=" + broken:      {"providers.kubernetesIngress.certAuthFilePath: " + broken + " has no certificate in PEM"},
		"--providers.kubernetesIngress true":                            {"unexpected word \"true\"", "join the value to its option, as in --providers.kubernetesIngress=true"},
		"--providers.kubernetesIngress false":                           {"as in --providers.kubernetesIngress=false"},
		"--entryPoints.web.http.tls yes":                                {"as in --entryPoints.web.http.tls=true"},
		"--entryPoints.web.http.upgradeProtocols=h2c":                   {"entryPoints.web.http.upgradeProtocols has \"h2c\", whose requests would bypass the routes: remove it"},
		"--entryPoints.web.http.upgradeProtocols=a;b":                   {"write a protocol such as websocket or SPDY/3.1"},
		"--configFile=" + broken:                                        {"line 2", "'='"},
	} {
		got := clitest.Run(t, "edge --print-config "+line)
		for _, want := range wants {
			if got.Code != 2 || !strings.Contains(got.Stderr, want) || strings.Contains(got.Stderr, "…") || strings.Contains(got.Stderr, "s3cret") {
				t.Errorf("%s: %+v, want exit code 2 and %q", line, got, want)
			}
		}
	}
}

func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		name, line, env string
		code            int
		stderr          string
	}{
		{"no provider", "edge", "", 2,
			"slipway: no provider is enabled: set --providers.file.filename=… or --providers.kubernetesingress\n"},
		{"one problem", "edge --log.lvel=debug", "", 2,
			"slipway: unknown option --log.lvel on the command line: did you mean --log.level?\n"},
		{"two problems", "edge --log.lvel=debug", "SLIPWAY_LOG_FORMATS=json", 2,
			"slipway: 2 problems:\n" +
				"  - unknown option SLIPWAY_LOG_FORMATS in the environment: did you mean SLIPWAY_LOG_FORMAT?\n" +
				"  - unknown option --log.lvel on the command line: did you mean --log.level?\n"},
		{"an option of Traefik", "edge --serversTransport.insecureSkipVerify", "", 2,
			"slipway: unknown option --serversTransport.insecureSkipVerify on the command line: see slipway edge --help for the options\n"},
		{"an option without its group", "edge --kubernetesIngress.ingressClass=x", "", 2,
			"slipway: unknown option --kubernetesIngress.ingressClass on the command line: did you mean --providers.kubernetesIngress.ingressClass?\n"},
		{"not valid", "edge --log.level=loud --admin.address=:1", "", 2,
			"slipway: 2 problems:\n" +
				"  - log.level is \"loud\": choose one of debug, info, warn, error\n" +
				"  - admin.address is \":1\", which others can reach: profiles show the contents of memory, so use a loopback address such as 127.0.0.1:8090\n"},
		{"not valid, only printed", "edge --print-config --log.level=loud", "", 2,
			"slipway: log.level is \"loud\": choose one of debug, info, warn, error\n"},
		{"unknown command", "verson", "", 2,
			"slipway: unknown command \"verson\" for \"slipway\"\n\nDid you mean this?\n\tversion\n\nRun 'slipway --help' for usage.\n"},
		{"unknown flag", "version --outptu json", "", 2,
			"slipway: unknown flag: --outptu: did you mean --output?\nRun 'slipway version --help' for usage.\n"},
		{"unlike any flag", "version --zzzzzz", "", 2,
			"slipway: unknown flag: --zzzzzz\nRun 'slipway version --help' for usage.\n"},
		{"unknown output", "version --output xml", "", 2, "slipway: --output \"xml\" is neither text nor json\n"},
		{"unknown level", "version --log.level loud", "", 2,
			"slipway: the log level \"loud\" is not known: choose one of debug, info, warn, error\n"},
		{"word", "version now", "", 2,
			"slipway: unknown command \"now\" for \"slipway version\"\nRun 'slipway version --help' for usage.\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			clitest.Clean(t)
			if c.env != "" {
				clitest.Clean(t, c.env)
			}
			want := clitest.Result{Code: c.code, Stderr: c.stderr}
			if got := clitest.Run(t, c.line); got != want {
				t.Errorf("\n got %+v\nwant %+v", got, want)
			}
		})
	}
}

// TestNothingToServe: nothing pretends to serve.
func TestNothingToServe(t *testing.T) {
	clitest.Clean(t)
	const quiet = "edge --admin.address=127.0.0.1:0 --health.address=127.0.0.1:0 --entrypoints.web.address=127.0.0.1:0 --log.level=error "
	missing := filepath.Join(t.TempDir(), "missing.yaml")
	broken := filepath.Join(t.TempDir(), "broken.yaml")
	must.Do(t, os.WriteFile(broken, []byte("rulez: []\n"), 0o600))
	tests := []struct{ name, flags, want string }{
		{"no API server", "--providers.kubernetesingress", "no API server to connect to"},
		{"no file", "--providers.file.filename=" + missing, "no such file"},
		{"not a table", "--providers.file.filename=" + broken, "rulez"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := clitest.Run(t, quiet+test.flags); got.Code != 1 || !strings.Contains(got.Stderr, test.want) {
				t.Errorf("got %+v, want exit code 1 and %q", got, test.want)
			}
		})
	}
}

func TestAddressTaken(t *testing.T) {
	clitest.Clean(t)
	taken := programs.Listen(t, "")
	address := taken.Addr().String()
	for option, other := range map[string]string{"admin.address": "health.address", "health.address": "admin.address"} {
		got := clitest.Run(t, "edge --providers.kubernetesingress --log.level=error --"+option+"="+address+" --"+other+"=127.0.0.1:0")
		want := "slipway: cannot listen on " + address + ": bind: address already in use: choose another address with --" + option + "\n"
		if got.Code != 1 || got.Stderr != want {
			t.Errorf("%s: got %+v", option, got)
		}
	}
}

// TestBothLevels: the edge takes the flags of every command among its options.
func TestBothLevels(t *testing.T) {
	clitest.Clean(t)
	for _, line := range []string{"--log.level=debug edge --print-config", "--log.level debug edge --print-config", "edge --print-config --log.level debug"} {
		if got := clitest.Run(t, line); got.Code != 0 || !strings.Contains(got.Stdout, "level: debug") {
			t.Errorf("%s: got %+v", line, got)
		}
	}
}

// TestLogFlagsAgree: the two packages that know the levels and formats know
// the same ones.
func TestLogFlagsAgree(t *testing.T) {
	clitest.Clean(t)
	for _, value := range []string{"debug", "info", "warn", "error", "auto", "text", "json", "", "INFO", "trace"} {
		for _, option := range []string{"--log.level=", "--log.format="} {
			asOption, asFlag := clitest.Run(t, "edge --print-config "+option+value), clitest.Run(t, option+value+" version")
			if asOption.Code != asFlag.Code {
				t.Errorf("%s%s: %d for the edge, %d elsewhere", option, value, asOption.Code, asFlag.Code)
			}
		}
	}
}

func TestEdgeHelp(t *testing.T) {
	for _, columns := range []string{"40", "80", "100"} {
		clitest.Clean(t, "COLUMNS="+columns, "SLIPWAY_WRONG=1")
		width := map[string]int{"40": 40, "80": 80, "100": 100}[columns]
		help := clitest.Run(t, "edge --log.level=wrong --help")
		if help.Code != 0 || help.Stderr != "" {
			t.Fatalf("got %d %s", help.Code, help.Stderr)
		}
		if again := clitest.Run(t, "help edge"); again.Stdout != help.Stdout {
			t.Error("help edge and edge --help differ")
		}
		if short := clitest.Run(t, "edge -h"); short.Stdout != help.Stdout {
			t.Error("edge -h and edge --help differ")
		}
		checkHelp(t, help.Stdout, width)
	}
}

// checkHelp looks for each option with its default and description.
func checkHelp(t *testing.T, help string, width int) {
	t.Helper()
	words := strings.Join(strings.Fields(help), " ")
	group := ""
	for _, option := range config.EdgeOptions() {
		want := option.Flag() + " " + string(option.Type) + " " + option.Description
		if option.Default != "" {
			want += " Default: " + option.Default + "."
		}
		if !strings.Contains(words, want) {
			t.Errorf("no %q", want)
		}
		if option.Group() != group {
			group = option.Group()
			if strings.Count(help, "\n"+group+":\n") != 1 {
				t.Errorf("the group %s is not there once", group)
			}
		}
	}
	for line := range strings.Lines(help) {
		line = strings.TrimSuffix(line, "\n")
		isText := strings.HasPrefix(line, "        ") && strings.Contains(strings.TrimSpace(line), " ")
		if isText && len([]rune(line)) > width {
			t.Errorf("wider than %d: %q", width, line)
		}
	}
}

func TestCompletion(t *testing.T) {
	clitest.Clean(t)
	got := clitest.Run(t, "__complete edge --providers.kubernetesingress.ingress")
	for _, want := range []string{"--providers.kubernetesIngress.ingressClass=\t", "--providers.kubernetesIngress.ingressEndpoint.ip=\t"} {
		if !strings.Contains(got.Stdout, want) {
			t.Errorf("no %q in %s", want, got.Stdout)
		}
	}
	if strings.Contains(got.Stdout, "--log") {
		t.Errorf("completes what was not typed: %s", got.Stdout)
	}
	if got := clitest.Run(t, "completion bash"); got.Code != 0 || !strings.Contains(got.Stdout, "__start_slipway") {
		t.Errorf("got %d", got.Code)
	}
}

// TestEdgeFails: an error of the data plane ends the command with 1, and
// nothing is left running (goleak looks for it).
func TestEdgeFails(t *testing.T) {
	clitest.Clean(t)
	var stdout, stderr bytes.Buffer
	broken := func(context.Context, *config.Edge, *observe.Health) error { return errors.New("it broke") }
	args := strings.Fields("edge --admin.address=127.0.0.1:0 --health.address=127.0.0.1:0 --providers.kubernetesingress --log.level=error")
	code := cli.ExecuteEdge(t.Context(), broken, args, &stdout, &stderr)
	if code != 1 || stderr.String() != "slipway: it broke\n" {
		t.Errorf("got %d %q", code, stderr.String())
	}
}

// TestContextEnds: the caller of Execute can stop it.
func TestContextEnds(t *testing.T) {
	clitest.Clean(t)
	ctx, cancel := context.WithCancel(t.Context())
	var stdout, stderr bytes.Buffer
	waits := func(ctx context.Context, _ *config.Edge, _ *observe.Health) error {
		cancel()
		<-ctx.Done()
		return ctx.Err()
	}
	args := strings.Fields("edge --admin.address=127.0.0.1:0 --health.address=127.0.0.1:0 --providers.kubernetesingress")
	if code := cli.ExecuteEdge(ctx, waits, args, &stdout, &stderr); code != 0 || !strings.Contains(stderr.String(), "edge has stopped") {
		t.Errorf("got %d %q", code, stderr.String())
	}
}
