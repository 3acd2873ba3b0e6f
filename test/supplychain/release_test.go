package supplychain_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/v2/loader"

	"slipway.dev/slipway/internal/must"
)

// platforms are those of a whole release.
var platforms = []string{"darwin-amd64", "darwin-arm64", "linux-amd64", "linux-arm64"}

// program is a script in the place of the program, which writes the files that
// come from its commands.
const program = "#!/bin/sh\n[ \"$1 $2\" = 'docs --extras' ] && mkdir -p \"$3/man/man1\" && echo page > \"$3/man/man1/slipway.1\" && exit\necho \"slipway of PLATFORM: $*\"\n"

// release runs what make release runs after the building, with files in the place
// of what was built, and returns the folder.
func release(t *testing.T) string {
	t.Helper()
	from, out := t.TempDir(), filepath.Join(t.TempDir(), "a", "dist")
	put := func(name, text string) {
		path := filepath.Join(from, name)
		must.Do(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must.Do(t, os.WriteFile(path, []byte(text), 0o755))
	}
	put("slipway-image.tar", "image")
	for _, platform := range platforms {
		put(platform+"/slipway", strings.ReplaceAll(program, "PLATFORM", platform))
		put(platform+"/slipway.cdx.json", "{}")
		if strings.HasPrefix(platform, "linux") {
			put(platform+"/slipway-devcluster", "#!/bin/sh\necho devcluster of "+platform+"\n")
			put(platform+"/slipway-devcluster.cdx.json", "{}")
			put(platform+"/slipway-image.cdx.json", "{}")
		}
	}
	output, err := exec.CommandContext(t.Context(), "../../scripts/release.sh", from, out).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	return out
}

// TestRelease: a release has charts that Helm loads, of one version, and checksums
// of everything; the same commit gives the same files.
func TestRelease(t *testing.T) {
	out := release(t)
	var version string
	for _, name := range []string{"gitops-runtime", "platform"} {
		found := must.Get(filepath.Glob(filepath.Join(out, name+"-*.tgz")))(t)
		if len(found) != 1 {
			t.Fatalf("the archives of %s are %v", name, found)
		}
		chart := must.Get(loader.LoadFile(found[0]))(t)
		must.Do(t, chart.Validate())
		if version == "" {
			version = chart.Metadata.AppVersion
		}
		if chart.Name() != name || chart.Metadata.Version != version || chart.Metadata.AppVersion != version || filepath.Base(found[0]) != name+"-"+version+".tgz" {
			t.Errorf("%s is %s %s with the image %s, and the release is %s", found[0], chart.Name(), chart.Metadata.Version, chart.Metadata.AppVersion, version)
		}
		if len(chart.Templates) == 0 || len(chart.Schema) == 0 {
			t.Errorf("%s has %d templates and a schema of %d bytes", name, len(chart.Templates), len(chart.Schema))
		}
	}
	check := exec.CommandContext(t.Context(), "sha256sum", "--check", "--strict", "SHA256SUMS")
	check.Dir = out
	text := string(must.Get(check.Output())(t))
	sums := string(must.Get(os.ReadFile(filepath.Join(out, "SHA256SUMS")))(t))
	var names []string
	for _, entry := range must.Get(os.ReadDir(out))(t) {
		names = append(names, entry.Name())
		if entry.Name() != "SHA256SUMS" && !strings.Contains(text, entry.Name()+": OK") {
			t.Errorf("%s has no checksum:\n%s", entry.Name(), text)
		}
	}
	want := []string{"SHA256SUMS", "gitops-runtime-" + version + ".tgz", "install.sh", "krew.yaml", "platform-" + version + ".tgz", "slipway-image.tar", "slipway.rb"}
	for _, platform := range platforms {
		want = append(want, "slipway-"+version+"-"+platform+".tar.gz", "slipway-"+platform+".cdx.json")
		if strings.HasPrefix(platform, "linux") {
			architecture := strings.TrimPrefix(platform, "linux-")
			want = append(want, "slipway_"+version+"_"+architecture+".deb", "slipway-"+version+"-1."+map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[architecture]+".rpm",
				"slipway-devcluster-"+platform+".gz", "slipway-devcluster-"+platform+".cdx.json", "slipway-image-"+platform+".cdx.json")
		}
	}
	slices.Sort(want)
	if !slices.Equal(names, want) {
		t.Errorf("the release is %s\nwant %s", fmt.Sprint(names), fmt.Sprint(want))
	}
	for _, name := range []string{"slipway.rb", "krew.yaml", "install.sh"} {
		text := string(must.Get(os.ReadFile(filepath.Join(out, name)))(t))
		if !strings.Contains(text, version) || strings.Contains(text, "@SHA256") || strings.Contains(text, "@VERSION@") {
			t.Errorf("%s is not filled:\n%s", name, text)
		}
	}
	if again := string(must.Get(os.ReadFile(filepath.Join(release(t), "SHA256SUMS")))(t)); again != sums {
		t.Errorf("the second release differs:\n%s\n%s", sums, again)
	}
}

// installed runs the install script on a machine without Go, and returns its
// output.
func installed(t *testing.T, prefix string, environment []string, script string, arguments ...string) (string, error) {
	t.Helper()
	command := exec.CommandContext(t.Context(), "sh", append([]string{script, "--prefix", prefix}, arguments...)...)
	command.Env = append([]string{"PATH=/usr/bin:/bin", "HOME=" + t.TempDir()}, environment...)
	output, err := command.CombinedOutput()
	return string(output), err
}

// TestInstall: the script installs from the folder and from an address, and nothing
// whose checksum or signature is wrong.
func TestInstall(t *testing.T) {
	out := release(t)
	server := httptest.NewServer(http.FileServer(http.Dir(out)))
	t.Cleanup(server.Close)
	alone := filepath.Join(t.TempDir(), "install.sh")
	must.Do(t, os.WriteFile(alone, must.Get(os.ReadFile(filepath.Join(out, "install.sh")))(t), 0o600))
	native := "linux-" + runtime.GOARCH
	for name, one := range map[string]struct {
		script      string
		environment []string
	}{
		"folder": {filepath.Join(out, "install.sh"), nil}, "address": {alone, []string{"SLIPWAY_BASE_URL=" + server.URL + "/"}},
	} {
		t.Run(name, func(t *testing.T) {
			prefix := filepath.Join(t.TempDir(), "a prefix")
			if text, err := installed(t, prefix, one.environment, one.script); err != nil || !strings.Contains(text, "Next: "+prefix+"/bin/slipway up") {
				t.Fatalf("%v\n%s", err, text)
			}
			for program, want := range map[string]string{"slipway": "slipway of " + native + ": version\n", "slipway-devcluster": "devcluster of " + native + "\n"} {
				if output, err := exec.CommandContext(t.Context(), filepath.Join(prefix, "bin", program), "version").Output(); string(output) != want || err != nil {
					t.Errorf("%s prints %q: %v", program, output, err)
				}
			}
			if _, err := os.Stat(filepath.Join(prefix, "share/man/man1/slipway.1")); err != nil {
				t.Error(err)
			}
		})
	}
	prefix := t.TempDir()
	if text, err := installed(t, prefix, nil, filepath.Join(out, "install.sh"), "--without-devcluster"); err != nil {
		t.Errorf("%v\n%s", err, text)
	}
	if left := must.Get(os.ReadDir(filepath.Join(prefix, "bin")))(t); len(left) != 1 {
		t.Errorf("without the development cluster, %d programs are installed", len(left))
	}
	if text, err := installed(t, prefix, nil, alone); err == nil || !strings.Contains(text, "SLIPWAY_BASE_URL") {
		t.Errorf("a script without files: %v\n%s", err, text)
	}
}

// TestInstallRefuses: a file that was changed, or checksums that were not signed by
// the key, install nothing.
func TestInstallRefuses(t *testing.T) {
	out := release(t)
	script, prefix := filepath.Join(out, "install.sh"), filepath.Join(t.TempDir(), "prefix")
	openssl := func(arguments ...string) {
		t.Helper()
		if output, err := exec.CommandContext(t.Context(), "openssl", arguments...).CombinedOutput(); err != nil {
			t.Fatalf("openssl %v: %v\n%s", arguments, err, output)
		}
	}
	keys := t.TempDir()
	for _, name := range []string{"ours", "other"} {
		openssl("genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", filepath.Join(keys, name))
		openssl("pkey", "-in", filepath.Join(keys, name), "-pubout", "-out", filepath.Join(keys, name+".pub"))
	}
	raw := filepath.Join(keys, "signature")
	openssl("dgst", "-sha256", "-sign", filepath.Join(keys, "ours"), "-out", raw, filepath.Join(out, "SHA256SUMS"))
	openssl("base64", "-A", "-in", raw, "-out", filepath.Join(out, "SHA256SUMS.sig"))
	if text, err := installed(t, t.TempDir(), []string{"SLIPWAY_PUBLIC_KEY=" + filepath.Join(keys, "ours.pub")}, script); err != nil {
		t.Errorf("with the right key: %v\n%s", err, text)
	}
	if text, err := installed(t, prefix, []string{"SLIPWAY_PUBLIC_KEY=" + filepath.Join(keys, "other.pub")}, script); err == nil || !strings.Contains(text, "is not signed by") {
		t.Errorf("with another key: %v\n%s", err, text)
	}
	changed := must.Get(filepath.Glob(filepath.Join(out, "slipway-devcluster-linux-"+runtime.GOARCH+".gz")))(t)[0]
	must.Do(t, os.WriteFile(changed, append(must.Get(os.ReadFile(changed))(t), 'x'), 0o600))
	if text, err := installed(t, prefix, nil, script); err == nil || !strings.Contains(text, "Nothing was installed") {
		t.Errorf("with a changed file: %v\n%s", err, text)
	}
	if _, err := os.Stat(filepath.Join(prefix, "bin")); err == nil {
		t.Error("something was installed")
	}
}
