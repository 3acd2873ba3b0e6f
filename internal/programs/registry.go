package programs

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"slipway.dev/slipway/internal/must"
)

// Registry runs Debian's docker-registry at an address of a network, which is
// tcp or unix, until the test ends. settings continue its settings of HTTP, for
// example ", relativeurls: true", and more has further sections.
func Registry(t testing.TB, network, address, settings, more string) {
	t.Helper()
	dir := t.TempDir()
	config := filepath.Join(dir, "config.yml")
	text := fmt.Sprintf("version: 0.1\nlog: {level: error, accesslog: {disabled: true}}\nstorage: {filesystem: {rootdirectory: %q}, delete: {enabled: true}}\nhttp: {net: %s, addr: %q%s}\n%s\n",
		filepath.Join(dir, "data"), network, address, settings, more)
	must.Do(t, os.WriteFile(config, []byte(text), 0o600))
	Run(t, "docker-registry", exec.Command("docker-registry", "serve", config)).AwaitListener(t, network, address)
}
