package integration

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"
	"net"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"

	"slipway.dev/slipway/internal/gitops/source/credential"
	"slipway.dev/slipway/internal/gitprovider"
)

// The credential of the runtime in Argo CD's form: one Secret for HTTPS and one
// for each SSH port.
const (
	webSecret = runtimeSecret + "-https"
	sshSecret = runtimeSecret + "-ssh"
	// maxSSHPorts bounds the ports of the Git host that get an SSH key.
	maxSSHPorts = 4
)

// writeArgoSecrets writes what the agent reads: Secrets for the host of the
// provider, its SSH host keys, and its certificate authorities.
func (s *Service) writeArgoSecrets(ctx context.Context, c *runtimeCredential) error {
	// The Shared Configuration Repository decides the host: behind a proxy it
	// can differ from that of the API.
	shared := s.settings().GetSharedRepository()
	host, plain, err := gitHost(c.apiURL, shared)
	if err != nil {
		return err
	}
	scheme := "https://"
	if plain {
		scheme = "http://"
	}
	if err := s.putSecret(ctx, prefixSecret(webSecret, map[string][]byte{
		"url": []byte(scheme + host), "username": []byte(gitUser(c.kind, c.Username)), "password": []byte(c.Token.Reveal()),
	})); err != nil {
		return err
	}
	if c.authorities != "" {
		if err := s.putConfig(ctx, credential.AuthoritiesConfigMap, func(data map[string]string) { data[hostName(host)] = c.authorities }); err != nil {
			return err
		}
	}
	if c.sshKey.IsZero() {
		return nil
	}
	name := hostName(host)
	// One Secret for each port, as credentials match the host with its port.
	for i, at := range sshHosts(name, shared, c.knownHosts) {
		field := sshSecret
		if i > 0 {
			field += "-" + portOf(at)
		}
		if err := s.putSecret(ctx, prefixSecret(field, map[string][]byte{
			"url": []byte("ssh://" + at), fieldSSHKey: []byte(c.sshKey.Reveal()),
		})); err != nil {
			return err
		}
	}
	return s.putConfig(ctx, credential.KnownHostsConfigMap, func(data map[string]string) {
		there := data[credential.KnownHostsKey]
		switch {
		// Given lines replace earlier ones; otherwise the published key is
		// added only if the host has none, so that a line of an admin wins.
		case c.knownHosts != "":
			data[credential.KnownHostsKey] = mergeKnownHosts(there, c.knownHosts)
		case !hasHost(there, name):
			data[credential.KnownHostsKey] = mergeKnownHosts(there, wellKnownHost(name))
		}
	})
}

// wellKnownHost returns the published host key of a public Git host; empty for
// others.
func wellKnownHost(host string) string {
	return map[string]string{
		// These are published by the providers and stable.
		"github.com":    "github.com ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl\n",
		"gitlab.com":    "gitlab.com ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAfuCHKVTjquxvt6CM6tdG4SLp1Btn/nOeHHE5UOzRdf\n",
		"bitbucket.org": "bitbucket.org ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIIazEu89wgQZ4bqs3d63QSMzYVa0MuJ2e2gKTKqu+UUO\n",
	}[host]
}

// hasHost reports whether known hosts have a line for a host.
func hasHost(text, host string) bool {
	for _, line := range knownLines(text) {
		// The first field has all names of the host, separated by commas.
		for name := range strings.SplitSeq(strings.Fields(line)[0], ",") {
			if hostName(name) == host {
				return true
			}
		}
	}
	return false
}

// prefixSecret returns a Secret that is for all repositories below its URL.
func prefixSecret(name string, data map[string][]byte) *corev1.Secret {
	data["type"] = []byte(credential.Git)
	// The type label makes the agent read it.
	named := labels("git-runtime")
	named[credential.TypeLabel] = string(credential.Prefix)
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: named}, Data: data}
}

// gitUser returns the user name for Git over HTTP. It differs from the one for
// the API with some providers and kinds of tokens.
func gitUser(kind gitprovider.Kind, username string) string {
	switch {
	// API tokens of Bitbucket Cloud need the email for the API and a fixed name
	// for Git.
	case kind == gitprovider.Bitbucket && strings.Contains(username, "@"):
		return "x-bitbucket-api-token-auth"
	case username != "":
		return username
	// GitLab accepts any name with a token; this is the documented one.
	case kind == gitprovider.GitLab:
		return "oauth2"
	case kind == gitprovider.Bitbucket, kind == gitprovider.BitbucketServer:
		return "x-token-auth"
	}
	return "x-access-token"
}

// sshHosts returns the host, and host:port for each known SSH port: that of the
// Shared Configuration Repository, and those in the lines of known hosts.
func sshHosts(host, shared, knownHosts string) []string {
	all := []string{host}
	add := func(port string) {
		// The default port is part of the first Secret.
		if port == "" || port == "22" || len(all) > maxSSHPorts {
			return
		}
		if at := net.JoinHostPort(host, port); !slices.Contains(all, at) {
			all = append(all, at)
		}
	}
	if address, err := gitprovider.ParseAddress(shared); err == nil && address.SSH && address.Host == host {
		add(address.Port)
	}
	for _, line := range knownLines(knownHosts) {
		for name := range strings.SplitSeq(strings.Fields(line)[0], ",") {
			if strings.HasPrefix(name, "[") {
				add(portOf(name))
			}
		}
	}
	return all
}

// hostName returns a host without port and brackets.
func hostName(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		return name
	}
	return strings.Trim(host, "[]")
}

// portOf returns the port of a host; empty if it has none.
func portOf(host string) string {
	_, port, err := net.SplitHostPort(host)
	if err != nil {
		return ""
	}
	return port
}

// putConfig changes a ConfigMap, and creates it if it does not exist. Conflicts
// with other writers are retried on their result.
func (s *Service) putConfig(ctx context.Context, name string, change func(data map[string]string)) error {
	err := retry.OnError(retry.DefaultBackoff, func(err error) bool { return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) }, func() error {
		// Read and update in each attempt: another writer may have changed
		// other keys.
		found, err := s.configMaps().Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			fresh := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{}}
			change(fresh.Data)
			_, err = s.configMaps().Create(ctx, fresh, metav1.CreateOptions{})
			return err
		}
		if err != nil {
			return err
		}
		if found.Data == nil {
			found.Data = map[string]string{}
		}
		change(found.Data)
		_, err = s.configMaps().Update(ctx, found, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		return storeError("write the ConfigMap", name, err)
	}
	return nil
}

// checkAuthorities accepts certificates only: a private key that was pasted by
// accident must not get into a ConfigMap.
func checkAuthorities(text string) (string, error) {
	refused := invalid("the authorities are not PEM text of certificates: write only blocks of BEGIN CERTIFICATE")
	var out bytes.Buffer
	for rest := []byte(text); len(bytes.TrimSpace(rest)) > 0; {
		var block *pem.Block
		// Text between blocks is dropped: it may be comments of a certificate
		// bundle.
		block, rest = pem.Decode(rest)
		if block == nil || block.Type != "CERTIFICATE" {
			return "", refused
		}
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			return "", refused
		}
		if err := pem.Encode(&out, &pem.Block{Type: block.Type, Bytes: block.Bytes}); err != nil {
			return "", err
		}
	}
	return out.String(), nil
}

// knownLines returns the lines that are neither empty nor comments.
func knownLines(text string) []string {
	var lines []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			lines = append(lines, line)
		}
	}
	return lines
}

// checkKnownHosts accepts lines for the Git host only: a key for another host
// would be trusted by every fetch of this runtime. Hashed names are refused, as
// their host cannot be checked.
func checkKnownHosts(text, host string) (string, error) {
	name := strings.ToLower(hostName(host))
	lines := knownLines(text)
	for i, line := range lines {
		// Lines of ssh-keyscan -H hide the host name by a hash.
		if strings.HasPrefix(line, "|") {
			return "", invalid("line %d of the known hosts has a hidden name: write it as ssh-keyscan prints it, without -H", i+1)
		}
		// Markers such as @cert-authority would trust more than one key.
		marker, hosts, _, _, _, err := ssh.ParseKnownHosts([]byte(line))
		if err != nil || marker != "" {
			return "", invalid("line %d of the known hosts cannot be used: write lines as ssh-keyscan prints them", i+1)
		}
		for _, one := range hosts {
			if strings.ToLower(hostName(one)) != name {
				return "", invalid("line %d of the known hosts is not for the Git server %s: leave it out", i+1, name)
			}
		}
	}
	if len(lines) == 0 {
		return "", invalid("the known hosts have no line")
	}
	return strings.Join(lines, "\n") + "\n", nil
}

// mergeKnownHosts replaces the lines of the hosts in more, and keeps all
// others.
func mergeKnownHosts(there, more string) string {
	replaced := map[string]bool{}
	for _, line := range knownLines(more) {
		replaced[strings.Fields(line)[0]] = true
	}
	var out strings.Builder
	for line := range strings.Lines(there) {
		// Comments and empty lines of the admin stay.
		line = strings.TrimRight(line, "\r\n")
		if words := strings.Fields(line); len(words) > 0 && replaced[words[0]] {
			continue
		}
		out.WriteString(line + "\n")
	}
	for _, line := range knownLines(more) {
		out.WriteString(line + "\n")
	}
	return out.String()
}
