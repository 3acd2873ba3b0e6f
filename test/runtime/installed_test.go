package runtime

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"connectrpc.com/connect"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/internal/gitops/gittest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/preflight"
	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/internal/wire/runtimev1"
	"slipway.dev/slipway/test/gitops/agentprocess"
)

// installed is a runtime that has its Git token from the values of the chart.
type installed struct {
	*stage
	// config is the Shared Configuration Repository.
	config *gittest.Repository
	// password is the file of the mounted Secret.
	password string
}

// testInstalled is the life of a runtime whose values have Git credentials. The CA of
// the Git server is among those of the platform, and first in no ConfigMap.
func (s *suite) testInstalled(t *testing.T) {
	g := &installed{stage: s.newStage(t, sqlitePlace(t)), password: filepath.Join(t.TempDir(), "password")}
	g.config = g.git.git.Repository(t, "team/config", map[string]string{"x": "x"})
	g.git.provider.Created = func(string) {} // and no repository appears
	bundle := filepath.Join(t.TempDir(), "bundle.pem")
	writeFile(t, bundle, string(must.Get(os.ReadFile(g.authority.CertFile))(t))+string(g.git.provider.CA))
	values := filepath.Join(t.TempDir(), "values.yaml")
	writeFile(t, values, `
global:
  platform: {url: `+g.url+`, accountId: `+g.account+`, userToken: {token: slw_inline_0123456789}}
  runtime: {name: east, gitCredentials: {username: robot, password: {value: `+g.git.runtimeToken+`}}}
`)
	writeFile(t, g.password, "ghp_of0nobody00000000000000000000000000")
	g.east = g.newMember(t, "east", s.east, "--platform.caFile="+bundle, "--sources.credentials.passwordFile="+g.password, "--runtime.valuesFile="+values,
		"--runtime.chartRepository=oci://charts.example.com", "--runtime.chartVersion=0.1.0")
	g.play(t, []act{{"credentials", g.testCredentials}, {"refusals", g.testRefusals}, {"configure", g.testConfigure}, {"clusters", g.testClusters}})
}

// cli runs the program as the admin does, and returns all that it prints.
func (g *stage) cli(ctx context.Context, words ...string) (string, error) {
	command := exec.CommandContext(ctx, g.binary, words...)
	command.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + g.t.TempDir(), "SLIPWAY_URL=" + g.url, "SLIPWAY_API_KEY=" + g.adminKey, "SSL_CERT_FILE=" + g.authority.CertFile,
	}
	out, err := command.CombinedOutput()
	return string(out), err
}

// until runs a command line until its output has some words and lacks others.
func (g *installed) until(t *testing.T, line, has, lacks string) string {
	t.Helper()
	out := ""
	programs.Eventually(t, func(ctx context.Context) error {
		out, _ = g.cli(ctx, strings.Fields(line)...) // a failure is what may be wanted
		if !strings.Contains(out, has) || lacks != "" && strings.Contains(out, lacks) {
			return fmt.Errorf("slipway %s has no %q, or %q:\n%s", line, has, lacks, out)
		}
		return nil
	})
	return out
}

// R37, R63, R79: a token of the values that the provider does not accept is named with
// the reason, and the right one completes the step, without a restart. P26 trusts what a
// fetch of the runtime trusts, and not the CAs of the platform.
func (g *installed) testCredentials(t *testing.T) {
	const step = "Git credentials of the runtime"
	if out := g.until(t, "runtime get east", "(global.runtime.gitCredentials) are not used", ""); !strings.Contains(out, step) {
		t.Errorf("there is no step in\n%s", out)
	}
	requireCheck := func(state string) {
		t.Helper()
		programs.Eventually(t, func(ctx context.Context) error {
			stream, err := g.admin.of("east").runtime.Preflight(ctx, connect.NewRequest(&runtimev1.PreflightRequest{Only: []string{"P26"}}))
			if err != nil {
				return err
			}
			defer stream.Close()
			if !stream.Receive() || stream.Msg().GetState() != state {
				return errors.Join(stream.Err(), fmt.Errorf("P26 is %v, not %s", stream.Msg(), state))
			}
			return nil
		})
	}
	requireCheck(string(preflight.Failed))
	authorities := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: argocd-tls-certs-cm}\ndata:\n  127.0.0.1: |\n    " +
		strings.ReplaceAll(strings.TrimSpace(string(g.git.provider.CA)), "\n", "\n    ") + "\n"
	g.east.cluster.Apply(t, g.east.namespace, authorities)
	requireCheck(string(preflight.Passed))
	writeFile(t, g.password, g.git.runtimeToken+"\n")
	g.until(t, "runtime get east", "Runtime as an Application", step)
	g.east.awaitListed(t, "east-in-cluster", "")
}

// Each way in which a real Git server refuses is an error that states what to do.
func (g *installed) testRefusals(t *testing.T) {
	configure := func(has ...string) {
		t.Helper()
		for _, words := range has {
			g.until(t, "runtime configure east", words, "unexpected response")
		}
	}
	wrong := fmt.Sprintf("apiVersion: v1\nkind: Secret\nmetadata: {name: wrong, labels: {argocd.argoproj.io/secret-type: repository}}\nstringData: {type: git, url: %q, username: robot, password: wrong}\n", g.git.url("team/config"))
	g.east.cluster.Apply(t, g.east.namespace, wrong)
	configure("the server responds Unauthorized", "slipway integration git set-runtime-token")
	g.until(t, "runtime get east", "the server responds Unauthorized", "")
	must.Do(t, g.east.cluster.Client.CoreV1().Secrets(g.east.namespace).Delete(t.Context(), "wrong", metav1.DeleteOptions{}))

	moved := g.config.Dir() + ".moved"
	must.Do(t, os.Rename(g.config.Dir(), moved))
	configure("the server does not have it", "create it there, or name another one with slipway account git reset")
	must.Do(t, os.Rename(moved, g.config.Dir()))

	g.git.git.SetDown(true)
	configure("check that the cluster of the runtime reaches the host")
	g.git.git.SetDown(false)

	hook := filepath.Join(g.config.Dir(), "hooks", "pre-receive")
	must.Do(t, os.MkdirAll(filepath.Dir(hook), 0o700))
	must.Do(t, os.WriteFile(hook, []byte("#!/bin/sh\nexit 1\n"), 0o700)) // #nosec G306 -- a hook is a program
	configure("the server rejects a push to live: pre-receive hook declined: check who may push to this branch")
	must.Do(t, os.Remove(hook))
}

// R71: the values in Git have no credentials, and the chart's hook accepts them.
func (g *installed) testConfigure(t *testing.T) {
	g.until(t, "runtime configure east", "east", "Error")
	text := g.config.Git(t, "show", "live:slipway/resources/east/chart/values.yaml")
	if strings.Contains(text, "gitCredentials:") || strings.Contains(text, g.git.runtimeToken) || !strings.Contains(text, "global.runtime.gitCredentials\n") {
		t.Errorf("the values are\n%s", text)
	}
	_, block, _ := strings.Cut(text, "gitops-runtime:\n")
	file := filepath.Join(t.TempDir(), "values.yaml")
	writeFile(t, file, strings.ReplaceAll("\n"+block, "\n  ", "\n"))
	// It reads the credential of the runtime in the cluster, which has joined.
	out, _ := g.cli(t.Context(), "helm", "validate", "--values", file, "--namespace", g.east.namespace, "--kubeconfig", g.east.cluster.Kubeconfig)
	if strings.Contains(out, "gitCredentials") {
		t.Errorf("the hook of the chart would find\n%s", out)
	}
}

// R77, R116: a managed cluster has a file in the Shared Configuration Repository and
// gets the resources of all clusters; both end with it, and the resources stay.
func (g *installed) testClusters(t *testing.T) {
	far := &member{stage: g.stage, name: "far", cluster: g.suite.west, namespace: g.suite.west.Namespace(t)}
	name := "everywhere-" + far.namespace
	g.config.CommitTo(t, "live", map[string]string{
		"slipway/resources/all-runtimes-all-clusters/one.yaml": fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s}\n", name),
		"slipway/runtimes/east/own.yaml":                       applicationManifest("own", g.git.folder("none"), inCluster, g.east.target),
	}, "resources of all clusters")
	config := g.suite.west.Config
	mustMessage(g.admin.of("east").clusters.AddCluster(t.Context(), connect.NewRequest(&runtimev1.AddClusterRequest{
		Name: "far", Server: config.Host, CertificateAuthority: config.CAData, Token: far.account(t),
		ServiceAccount: "deployer", ServiceAccountNamespace: far.namespace,
	})))(t)
	programs.Eventually(t, func(ctx context.Context) error {
		_, err := far.cluster.Client.CoreV1().ConfigMaps("default").Get(ctx, name, metav1.GetOptions{})
		return err
	})
	if text := g.config.Git(t, "show", "live:slipway/runtimes/east/far.yaml"); !strings.Contains(text, "server: "+config.Host) {
		t.Errorf("the file of the cluster is\n%s", text)
	}
	if out, err := g.cli(t.Context(), "cluster", "remove", "far", "--runtime", "east", "--yes"); err != nil {
		t.Fatalf("remove: %v\n%s", err, out)
	}
	programs.Eventually(t, func(ctx context.Context) error {
		_, err := agentprocess.Applications(g.east.cluster.Cluster, g.east.namespace).Get(ctx, "east-far", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("the Application of the cluster is there: %w", err)
	})
	if files := g.config.Git(t, "ls-tree", "--name-only", "live", "slipway/runtimes/east/"); strings.Contains(files, "far.yaml") || !strings.Contains(files, "own.yaml") {
		t.Errorf("the files of the runtime are\n%s", files)
	}
	if _, err := far.cluster.Client.CoreV1().ConfigMaps("default").Get(t.Context(), name, metav1.GetOptions{}); err != nil {
		t.Errorf("what was deployed there: %v", err)
	}
}
