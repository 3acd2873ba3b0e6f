package acme

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"slipway.dev/slipway/internal/edge/pkitest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
)

const (
	directoryPort = 14000
	// challengePort is where pebble validates challenges, if the test has no other.
	challengePort = 5002
)

// pebble is a running authority.
type pebble struct {
	*programs.Process
	address netip.Addr
	// rootFile vouches for its directory.
	rootFile string
}

// startPebble runs an authority whose certificates are valid for a time, and which
// validates challenges at a port.
func startPebble(t *testing.T, address netip.Addr, validity time.Duration, dns string, port int) *pebble {
	t.Helper()
	dir := t.TempDir()
	p := &pebble{address: address, rootFile: filepath.Join(dir, "root.pem")}
	pair := pkitest.SelfSigned(t, pkitest.Certificate{Names: []string{address.String()}, Authority: true})
	config := must.Get(json.Marshal(map[string]any{"pebble": map[string]any{
		"listenAddress": netip.AddrPortFrom(address, directoryPort).String(), "managementListenAddress": "",
		"certificate": write(t, p.rootFile, []byte(pair.Chain)), "privateKey": write(t, filepath.Join(dir, "key.pem"), []byte(pair.Key)),
		"httpPort": port, "tlsPort": 5001, "certificateValidityPeriod": int(validity.Seconds()),
	}}))(t)
	command := exec.Command("pebble", "-config", write(t, filepath.Join(dir, "pebble.json"), config), "-dnsserver", dns)
	// The rest of its torments stays: some good nonces are refused, and challenges
	// are looked at several times. Each order has to be validated again.
	command.Env = append(os.Environ(), "PEBBLE_VA_NOSLEEP=1", "PEBBLE_AUTHZREUSE=0")
	log := &programs.Output{}
	command.Stdout, command.Stderr = log, log
	p.Process = programs.Run(t, "pebble at "+address.String(), command)
	p.AwaitListener(t, "tcp", netip.AddrPortFrom(address, directoryPort).String())
	return p
}

// ordered is how many orders there were.
func (p *pebble) ordered() int { return strings.Count(p.Log.String(), "Added order") }

func (p *pebble) directory() string {
	return fmt.Sprintf("https://%s:%d/dir", p.address, directoryPort)
}

func write(t *testing.T, path string, text []byte) string {
	t.Helper()
	must.Do(t, os.WriteFile(path, text, 0o600))
	return path
}
