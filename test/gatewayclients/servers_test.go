package gatewayclients

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/miekg/dns"

	"slipway.dev/slipway/internal/edge/pkitest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
)

const (
	// zone has the records of all host names.
	zone = "gateway.test"
	// tsigKey is the key with which external-dns may write them.
	tsigKey    = "external-dns"
	tsigSecret = "c2VjcmV0LW9mLXRoZS1rZXktMTIzNDU2Nzg5MGFiY2Q="
)

// nameServer is BIND, the primary of the zone, whose records external-dns writes.
type nameServer struct{ address string }

// startBIND runs BIND at 127.0.0.1: it listens on addresses of interfaces only.
func startBIND(t *testing.T) *nameServer {
	t.Helper()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "zone"), fmt.Appendf(nil, "$TTL 1\n@ SOA ns.%[1]s. root.%[1]s. 1 60 60 60 1\n@ NS ns.%[1]s.\nns A 127.0.0.1\n", zone))
	config := write(t, filepath.Join(dir, "named.conf"), fmt.Appendf(nil, `
options {
	directory %q; listen-on { 127.0.0.1; }; listen-on-v6 { none; }; pid-file none; session-keyfile none; lock-file none;
	recursion no; dnssec-validation no; empty-zones-enable no;
};
controls { };
key %[2]q { algorithm hmac-sha256; secret %[3]q; };
zone %[4]q { type primary; file "zone"; update-policy { grant %[2]q zonesub ANY; }; allow-transfer { key %[2]q; }; };
`, dir, tsigKey, tsigSecret, zone))
	// AppArmor confines the program by its path to the files of the package.
	named := filepath.Join(dir, "named")
	must.Do(t, os.WriteFile(named, must.Get(os.ReadFile("/usr/sbin/named"))(t), 0o700))
	s := &nameServer{address: "127.0.0.1:53"}
	run(t, "BIND", exec.Command(named, "-g", "-4", "-n", "1", "-c", config)).AwaitListener(t, "tcp", s.address)
	return s
}

// run starts a server whose log is shown if the test fails.
func run(t *testing.T, name string, command *exec.Cmd) *programs.Process {
	t.Helper()
	log := &programs.Output{}
	command.Stdout, command.Stderr = log, log
	return programs.Run(t, name, command)
}

// lookup returns the addresses of a name, sorted.
func (s *nameServer) lookup(name string) ([]string, error) {
	reply, err := dns.Exchange(new(dns.Msg).SetQuestion(dns.Fqdn(name), dns.TypeA), s.address)
	if err != nil {
		return nil, err
	}
	var addresses []string
	for _, found := range reply.Answer {
		if record, ok := found.(*dns.A); ok {
			addresses = append(addresses, record.A.String())
		}
	}
	slices.Sort(addresses)
	return addresses, nil
}

// pebble is an authority of ACME.
type pebble struct {
	// directory is its address, and root the certificate that vouches for it, in PEM.
	directory, root string
}

// startPebble runs an authority that validates challenges at the ports of the Internet.
func startPebble(t *testing.T, address netip.Addr, names string) *pebble {
	t.Helper()
	dir := t.TempDir()
	at := netip.AddrPortFrom(address, 14000).String()
	pair := pkitest.SelfSigned(t, pkitest.Certificate{Names: []string{address.String()}, Authority: true})
	config := must.Get(json.Marshal(map[string]any{"pebble": map[string]any{
		"listenAddress": at, "managementListenAddress": "", "httpPort": 80, "tlsPort": 443,
		"certificate": write(t, filepath.Join(dir, "root.pem"), []byte(pair.Chain)), "privateKey": write(t, filepath.Join(dir, "key.pem"), []byte(pair.Key)),
	}}))(t)
	command := exec.Command("pebble", "-config", write(t, filepath.Join(dir, "pebble.json"), config), "-dnsserver", names)
	command.Env = append(os.Environ(), "PEBBLE_VA_NOSLEEP=1")
	run(t, "pebble", command).AwaitListener(t, "tcp", at)
	return &pebble{directory: "https://" + at + "/dir", root: pair.Chain}
}

func write(t *testing.T, path string, text []byte) string {
	t.Helper()
	must.Do(t, os.WriteFile(path, text, 0o600))
	return path
}
