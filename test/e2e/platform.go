package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/test/e2e/node"
)

const (
	// adminEmail is the first user, whom the platform creates on its first
	// start.
	adminEmail = "admin@example.com"
	// chosen replaces the generated password at the first sign-in, which the
	// platform enforces.
	chosen = "correct-horse-battery-staple"
)

// platformRelease returns the release of the platform chart.
func platformRelease() helmRelease {
	return helmRelease{"platform", "slipway-platform", "slipway-platform"}
}

// tagImage adds the second tag to the image, for the upgrade under traffic.
func (s *scene) tagImage(ctx context.Context) (string, error) {
	return imageRepository + ":" + secondTag, s.node.TagImage(ctx, imageRepository+":"+firstTag, imageRepository+":"+secondTag)
}

// installPlatform installs the chart with SQLite on a local volume, behind a
// load balancer, with TLS terminated by the platform itself.
func (s *scene) installPlatform(ctx context.Context) (string, error) {
	release := platformRelease()
	// The cluster has no storage provisioner, so the claim of the chart binds
	// to this volume. Retain keeps the controller from looking for a plugin to
	// delete it.
	volume := filepath.Join(s.work, "volumes", "platform")
	if err := os.MkdirAll(volume, 0o755); err != nil {
		return "", err
	}
	certificate, key, err := s.authority.issue(platformHost)
	if err != nil {
		return "", err
	}
	if err := s.manifest(ctx, namespace(release.namespace)+tlsSecret(release.namespace, "platform-tls", certificate, key)+fmt.Sprintf(`---
apiVersion: v1
kind: PersistentVolume
metadata: {name: platform}
spec:
  capacity: {storage: 5Gi}
  accessModes: [ReadWriteOnce]
  persistentVolumeReclaimPolicy: Retain
  local: {path: %s}
  nodeAffinity:
    required: {nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [%s]}]}]}
`, volume, node.Name)); err != nil {
		return "", err
	}
	err = s.apply(ctx, release, fmt.Sprintf(`
publicURL: https://%s
tunnelDomain: tunnels.e2e.test
tls: {secretName: platform-tls}
service: {type: LoadBalancer}
firstStart: {email: %s}
image: {tag: %s, pullPolicy: Never}
`, platformHost, adminEmail, firstTag))
	return "https://" + platformHost, err
}

// namespace returns the manifest of a namespace that enforces the restricted
// Pod Security Standard: the charts have to work in such a namespace.
func namespace(name string) string {
	return fmt.Sprintf("---\napiVersion: v1\nkind: Namespace\nmetadata: {name: %s, labels: {pod-security.kubernetes.io/enforce: restricted}}\n", name)
}

// tlsSecret returns the manifest of a kubernetes.io/tls Secret.
func tlsSecret(namespace, name string, certificate, key []byte) string {
	return fmt.Sprintf("---\napiVersion: v1\nkind: Secret\nmetadata: {name: %s, namespace: %s}\ntype: kubernetes.io/tls\ndata: {tls.crt: %s, tls.key: %s}\n",
		name, namespace, base64.StdEncoding.EncodeToString(certificate), base64.StdEncoding.EncodeToString(key))
}

// signIn follows the notes of the chart: it reads the generated password from
// the log of the first start, where it appears once, signs in, and chooses a
// new one. It stores the ID of the account for later steps.
func (s *scene) signIn(ctx context.Context) (string, error) {
	password := ""
	err := s.until(ctx, func(ctx context.Context) error {
		log, err := s.logOf(ctx, platformRelease().namespace, "app.kubernetes.io/component=platform")
		if err != nil {
			return err
		}
		_, rest, found := strings.Cut(log, "password: ")
		if !found {
			return errors.New("the log has no password yet")
		}
		password, _, _ = strings.Cut(rest, "\n")
		// The load balancer accepts connections only after kube-proxy has
		// synced.
		return connects(ctx, platformHost+":443")
	})
	if err != nil {
		return "", err
	}
	if _, err := s.slipway(ctx, password+"\n"+chosen+"\n", "login", "https://"+platformHost, "--email", adminEmail, "--password-stdin", "--ca-file", s.authority.file); err != nil {
		return "", err
	}
	text, err := s.slipway(ctx, "", "account", "get", "--output", "json")
	if err != nil {
		return "", err
	}
	// The ID is at the top level or below "account"; the other field is empty.
	var account struct {
		Account struct {
			ID string `json:"id"`
		} `json:"account"`
		ID string `json:"id"`
	}
	if err := json.Unmarshal([]byte(text), &account); err != nil {
		return "", fmt.Errorf("%w: %s", err, text)
	}
	if s.account = account.ID + account.Account.ID; s.account == "" {
		return "", fmt.Errorf("the account has no ID: %s", text)
	}
	return "account " + s.account, nil
}

// connects returns nil if a TCP connection to an address succeeds. A load
// balancer has an address a moment before its rules are programmed.
func connects(ctx context.Context, address string) error {
	dialer := net.Dialer{Timeout: time.Second}
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	return conn.Close()
}

// logOf returns up to 1 MiB of the log of the first Pod that matches a
// selector. The request goes through the API server to the kubelet, as with
// kubectl logs.
func (s *scene) logOf(ctx context.Context, namespace, selector string) (string, error) {
	pods, err := s.node.Client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return "", err
	}
	if len(pods.Items) == 0 {
		return "", fmt.Errorf("no Pod in %s has %s", namespace, selector)
	}
	stream, err := s.node.Client.CoreV1().Pods(namespace).GetLogs(pods.Items[0].Name, &corev1.PodLogOptions{}).Stream(ctx)
	if err != nil {
		return "", err
	}
	defer stream.Close()
	text, err := io.ReadAll(io.LimitReader(stream, 1<<20))
	return string(text), err
}

// uninstallPlatform removes the release and checks that only the documented
// objects remain. The volume claim is kept by the chart and is deleted with the
// namespace.
func (s *scene) uninstallPlatform(ctx context.Context) (string, error) {
	if err := s.remove(platformRelease()); err != nil {
		return "", err
	}
	known := []string{
		"persistentvolumeclaims/slipway-platform", // it has the data, and the chart keeps it
		"secrets/platform-tls",                    // created before the release, by the test
	}
	in := platformRelease().namespace
	var left []string
	err := s.until(ctx, func(ctx context.Context) (err error) {
		// Helm has deleted the objects, but finalizers and garbage collection
		// may still be pending.
		left, err = s.leftIn(ctx, in, func(name string) bool { return slices.Contains(known, name) })
		return err
	})
	if err != nil {
		return "", err
	}
	for _, words := range [][]string{{"delete", "namespace", in, "--timeout=120s"}, {"delete", "persistentvolume", "platform", "--timeout=120s"}} {
		if output, err := s.node.Kubectl(ctx, words...).CombinedOutput(); err != nil {
			return "", fmt.Errorf("kubectl %v: %w: %s", words, err, output)
		}
	}
	return "left on purpose, and gone with the namespace: " + strings.Join(left, ", "), nil
}
