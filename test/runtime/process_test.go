package runtime

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"slipway.dev/slipway/test/conformance/edgeprocess"
)

// process is a running slipway.
type process struct {
	name    string
	command *exec.Cmd
	exited  chan struct{} // closed when it is gone and its output complete

	mu  sync.Mutex
	out bytes.Buffer
	log bytes.Buffer
	// listens has the address of each server that the log has told of.
	listens map[string]string
}

// sink is one of the outputs of a process.
type sink struct {
	process *process
	buffer  *bytes.Buffer
}

func (s sink) Write(p []byte) (int, error) {
	s.process.mu.Lock()
	defer s.process.mu.Unlock()
	return s.buffer.Write(p)
}

// launch runs slipway with these words until the end of the test.
func (s *suite) launch(t *testing.T, name string, environment []string, words ...string) *process {
	t.Helper()
	p := &process{name: name, command: exec.Command(s.binary, words...), exited: make(chan struct{}), listens: map[string]string{}}
	p.command.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "TMPDIR=" + t.TempDir()}, environment...)
	p.command.Stdout = sink{p, &p.out}
	edgeprocess.Tie(p.command)
	stderr, err := p.command.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.command.Start(); err != nil {
		t.Fatal(err)
	}
	go p.readLog(stderr)
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("the log of %s:\n%s", name, tail(p.logged()))
		}
	})
	return p
}

// tail is the end of a long text.
func tail(text string) string {
	const most = 24 << 10
	if len(text) <= most {
		return text
	}
	return "...\n" + text[len(text)-most:]
}

func (p *process) readLog(stderr io.Reader) {
	defer close(p.exited)
	lines := bufio.NewScanner(io.TeeReader(stderr, sink{p, &p.log}))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var line struct{ Msg, Server, Address string }
		if json.Unmarshal(lines.Bytes(), &line) == nil && line.Msg == "server listens" {
			p.mu.Lock()
			p.listens[line.Server] = line.Address
			p.mu.Unlock()
		}
	}
	_ = p.command.Wait() // how it ended shows in the log
}

// logged and printed are what the process has written so far.
func (p *process) logged() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.String()
}

func (p *process) printed() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.String()
}

// address is where a server of the process listens.
func (p *process) address(t *testing.T, server string) (address string) {
	t.Helper()
	eventually(t, func(context.Context) error {
		p.mu.Lock()
		defer p.mu.Unlock()
		if address = p.listens[server]; address == "" {
			return fmt.Errorf("the server %s of %s does not listen:\n%s", server, p.name, p.log.String())
		}
		return nil
	})
	return address
}

// metrics is the page of metrics.
func (p *process) metrics(t *testing.T) string {
	t.Helper()
	response, err := http.Get("http://" + p.address(t, "health") + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK || !bytes.Contains(text, []byte("slipway_")) {
		t.Fatalf("the metrics of %s are %d %s: %v", p.name, response.StatusCode, text, err)
	}
	return string(text)
}

// kill ends the process as a machine that loses its power does.
func (p *process) kill() {
	_ = p.command.Process.Kill() // it may be over
	<-p.exited
}

// stop ends the process in good order.
func (p *process) stop(t *testing.T) {
	t.Helper()
	if err := p.command.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case <-p.exited:
	case <-time.After(patience):
		t.Fatalf("%s does not stop:\n%s", p.name, p.logged())
	}
	if state := p.command.ProcessState; !state.Success() {
		t.Errorf("%s ended with %v:\n%s", p.name, state, tail(p.logged()))
	}
}

// run runs slipway to its end.
func (s *suite) run(t *testing.T, words ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	command := exec.CommandContext(ctx, s.binary, words...)
	command.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "XDG_CONFIG_HOME=" + t.TempDir()}
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("slipway %s: %v\n%s", strings.Join(words, " "), err, out)
	}
	return string(out)
}

// authority vouches for the platforms.
type authority struct {
	file, certFile, keyFile string
	roots                   *x509.CertPool
}

// newAuthority makes a certificate for loopback addresses and the hosts of tunnels.
func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "platform"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		IsCA: true, BasicConstraintsValid: true, DNSNames: []string{"*." + tunnelDomain}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	private, keyErr := x509.MarshalPKCS8PrivateKey(key)
	if err := errors.Join(err, keyErr); err != nil {
		t.Fatal(err)
	}
	dir, roots := t.TempDir(), x509.NewCertPool()
	made := &authority{file: filepath.Join(dir, "tls.crt"), certFile: filepath.Join(dir, "tls.crt"), keyFile: filepath.Join(dir, "tls.key"), roots: roots}
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	roots.AppendCertsFromPEM(text)
	writeFile(t, made.certFile, string(text))
	writeFile(t, made.keyFile, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})))
	return made
}
