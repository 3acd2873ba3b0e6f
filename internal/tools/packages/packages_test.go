package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/must"
)

// built writes both packages of a small program.
func built(t *testing.T) (deb, rpm string) {
	t.Helper()
	files, out := t.TempDir(), t.TempDir()
	for name, text := range map[string]string{
		"slipway": "#!/bin/sh\necho here\n", "LICENSE": "Apache", "share/man/man1/slipway.1": ".TH SLIPWAY 1\n",
		"share/zsh/site-functions/_slipway": "#compdef slipway\n", "share/bash-completion/completions/slipway": "complete slipway\n",
	} {
		path := filepath.Join(files, name)
		must.Do(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must.Do(t, os.WriteFile(path, []byte(text), 0o600))
	}
	t.Setenv("SOURCE_DATE_EPOCH", "1700000000")
	must.Do(t, run(options{out: out, version: "1.2.3", architecture: "amd64", files: files, units: "../../../deploy/systemd"}))
	return filepath.Join(out, "slipway_1.2.3_amd64.deb"), filepath.Join(out, "slipway-1.2.3-1.x86_64.rpm")
}

// output runs a program of the distribution on a package.
func output(t *testing.T, name string, arguments ...string) string {
	t.Helper()
	text, err := exec.CommandContext(t.Context(), name, arguments...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(arguments, " "), err, text)
	}
	return string(text)
}

func requireLines(t *testing.T, text string, wants ...string) {
	t.Helper()
	for _, want := range wants {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in:\n%s", want, text)
		}
	}
}

// TestDebian: dpkg reads the package, and its files are those that were given.
func TestDebian(t *testing.T) {
	deb, _ := built(t)
	requireLines(t, output(t, "dpkg-deb", "--info", deb), "Package: slipway", "Version: 1.2.3", "Architecture: amd64", "conffiles", "postinst", "prerm")
	requireLines(t, output(t, "dpkg-deb", "--contents", deb), "-rwxr-xr-x root/root", "2023-11-14", "./usr/bin/slipway", "./usr/lib/systemd/system/slipway-edge.service",
		"./etc/slipway/agent.yaml", "./usr/share/man/man1/slipway.1.gz", "./usr/share/zsh/vendor-completions/_slipway", "./usr/lib/sysusers.d/slipway.conf")
	to := t.TempDir()
	output(t, "dpkg-deb", "--raw-extract", deb, to)
	if got := output(t, filepath.Join(to, "usr/bin/slipway")); got != "here\n" {
		t.Errorf("the program prints %q", got)
	}
	// The checksums are those that dpkg --verify compares.
	check := exec.CommandContext(t.Context(), "md5sum", "--check", "--strict", "--quiet", "DEBIAN/md5sums")
	check.Dir = to
	if text, err := check.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, text)
	}
	for _, script := range []string{"postinst", "prerm"} {
		output(t, "sh", "-n", filepath.Join(to, "DEBIAN", script))
	}
}

// TestRedHat: rpm reads the package, and finds its digests right.
func TestRedHat(t *testing.T) {
	_, rpm := built(t)
	requireLines(t, output(t, "rpm", "--query", "--package", "--info", rpm), "Name        : slipway", "Version     : 1.2.3", "Architecture: x86_64", "License     : Apache-2.0")
	requireLines(t, output(t, "rpm", "--query", "--package", "--list", "--verbose", rpm), "-rwxr-xr-x", "/usr/bin/slipway", "/usr/lib/systemd/system/slipway-platform.service",
		"/usr/share/zsh/site-functions/_slipway", "/usr/share/man/man1/slipway.1.gz")
	requireLines(t, output(t, "rpm", "--query", "--package", "--configfiles", rpm), "/etc/slipway/edge.yaml")
	requireLines(t, output(t, "rpm", "--query", "--package", "--scripts", rpm), "systemd-sysusers", "postinstall", "preuninstall")
	requireLines(t, output(t, "rpm", "--checksig", "--nosignature", rpm), "digests OK")
	if os.Geteuid() != 0 {
		return // rpm changes its root directory to install
	}
	root := "--root=" + t.TempDir()
	output(t, "rpm", "--force-debian", root, "--install", "--nodeps", "--noscripts", rpm)
	if got := output(t, filepath.Join(strings.TrimPrefix(root, "--root="), "usr/bin/slipway")); got != "here\n" {
		t.Errorf("the program prints %q", got)
	}
	output(t, "rpm", root, "--verify", "slipway")
}

// TestSamePackagesTwice: nothing of the machine or the moment is in a package.
func TestSamePackagesTwice(t *testing.T) {
	deb, rpm := built(t)
	deb2, rpm2 := built(t)
	for first, second := range map[string]string{deb: deb2, rpm: rpm2} {
		if !bytes.Equal(must.Get(os.ReadFile(first))(t), must.Get(os.ReadFile(second))(t)) {
			t.Errorf("%s differs the second time", filepath.Base(first))
		}
	}
}

// TestRefusals: what is missing is named.
func TestRefusals(t *testing.T) {
	for want, given := range map[string]options{
		"--out, --version and --files": {version: "1"},
		"neither amd64 nor arm64":      {out: t.TempDir(), version: "1", files: t.TempDir(), architecture: "riscv64"},
		"no such file":                 {out: t.TempDir(), version: "1", files: t.TempDir(), architecture: "arm64"},
	} {
		if err := run(given); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// TestUnits: systemd takes the units, and they start the role that they are named
// after.
func TestUnits(t *testing.T) {
	dir := t.TempDir()
	for _, role := range []string{"edge", "agent", "platform"} {
		text := string(must.Get(os.ReadFile("../../../deploy/systemd/slipway-" + role + ".service"))(t))
		requireLines(t, text, "ExecStart=/usr/bin/slipway "+role+" --configFile=/etc/slipway/"+role+".yaml\n", "User=slipway\n", "NoNewPrivileges=yes\n")
		// The program is not installed on this machine.
		path := filepath.Join(dir, "slipway-"+role+".service")
		text = strings.NewReplacer("/usr/bin/slipway", "/bin/true", "Documentation=man:slipway-"+role+"(1)\n", "").Replace(text)
		must.Do(t, os.WriteFile(path, []byte(text), 0o600))
		if said := output(t, "systemd-analyze", "verify", path); strings.Contains(said, path) || strings.Contains(said, "slipway-"+role) {
			t.Errorf("systemd: %s", said)
		}
	}
}
