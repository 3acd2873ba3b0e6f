package images_test

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/crypto/bcrypt"

	"slipway.dev/slipway/internal/edge/pkitest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
)

// place is a registry: Debian's docker-registry with its own certificate authority
// and one user.
type place struct {
	t       testing.TB
	address string
	// authFile and caFile are what a client needs.
	authFile, caFile string
}

const (
	registryUser     = "mirror"
	registryPassword = "not-shown-anywhere"
)

// startRegistry starts a registry, with or without TLS and the user.
func startRegistry(t testing.TB, secured bool) *place {
	t.Helper()
	folder := t.TempDir()
	p := &place{t: t, address: programs.FreeAddress(t).String(), authFile: filepath.Join(folder, "auth.json"), caFile: filepath.Join(folder, "ca.pem")}
	encryption, users := "", ""
	if secured {
		p.writeCertificate(folder)
		p.writeUser(folder)
		encryption = fmt.Sprintf(", tls: {certificate: %[1]s/cert.pem, key: %[1]s/key.pem}", folder)
		users = fmt.Sprintf("auth:\n  htpasswd: {realm: test, path: %s/users}", folder)
	}
	programs.Registry(t, "tcp", p.address, encryption, users)
	return p
}

func write(t testing.TB, file, text string) {
	t.Helper()
	must.Do(t, os.WriteFile(file, []byte(text), 0o600))
}

// writeCertificate makes an authority and a certificate for 127.0.0.1.
func (p *place) writeCertificate(folder string) {
	p.t.Helper()
	authority := pkitest.NewAuthority(p.t)
	pair := authority.Issue(p.t, "127.0.0.1")
	write(p.t, p.caFile, authority.PEM)
	write(p.t, filepath.Join(folder, "cert.pem"), pair.Chain)
	write(p.t, filepath.Join(folder, "key.pem"), pair.Key)
}

func (p *place) writeUser(folder string) {
	p.t.Helper()
	hash, err := bcrypt.GenerateFromPassword([]byte(registryPassword), bcrypt.MinCost)
	must.Do(p.t, err)
	write(p.t, filepath.Join(folder, "users"), registryUser+":"+string(hash)+"\n")
	auth := base64.StdEncoding.EncodeToString([]byte(registryUser + ":" + registryPassword))
	write(p.t, p.authFile, fmt.Sprintf(`{"auths": {%q: {"auth": %q}}}`, p.address, auth))
}
