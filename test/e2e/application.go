package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"slipway.dev/slipway/test/e2e/node"
)

// application is the name of the Argo CD Application that the agent syncs, and
// applicationNamespace is its destination.
const (
	application          = "shop"
	applicationNamespace = "shop"
)

// deliver commits the manifests, creates the Application with automated sync,
// and waits until the platform reports it as Synced and Healthy. The
// certificate is in the namespace before the Ingress is, so the edge never
// serves its default one.
func (s *scene) deliver(ctx context.Context) (string, error) {
	commit, err := s.git.push("the shop opens", map[string]string{"shop/shop.yaml": shop("hello", "", "")})
	if err != nil {
		return "", err
	}
	certificate, key, err := s.authority.issue(appHost)
	if err != nil {
		return "", err
	}
	// The finalizer makes the agent delete the delivered objects with the
	// Application, which the uninstall step relies on.
	err = s.manifest(ctx, namespace(applicationNamespace)+tlsSecret(applicationNamespace, "shop-tls", certificate, key)+fmt.Sprintf(`---
apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: %[1]s, namespace: %[2]s, finalizers: [resources-finalizer.argocd.argoproj.io]}
spec:
  project: default
  source: {repoURL: "https://%[3]s/apps.git", path: shop, targetRevision: main}
  destination: {server: https://kubernetes.default.svc, namespace: %[4]s}
  syncPolicy: {automated: {prune: true, selfHeal: true}}
`, application, runtimeRelease().namespace, gitHost, applicationNamespace))
	if err != nil {
		return "", err
	}
	return "commit " + commit[:12], s.awaitApplication(ctx, commit)
}

// awaitApplication waits until the platform has the application Synced and
// Healthy at a commit. It reads through the platform and not the cluster, so
// the reports of the agent are tested as well.
func (s *scene) awaitApplication(ctx context.Context, commit string) error {
	return s.until(ctx, func(ctx context.Context) error {
		text, err := s.slipway(ctx, "", "app", "get", application, "--runtime", runtimeName, "--output", "json")
		if err != nil {
			return err
		}
		var found struct {
			Status struct {
				Sync   struct{ Status, Revision string }
				Health struct{ Status string }
			}
		}
		if err := json.Unmarshal([]byte(text), &found); err != nil {
			return err
		}
		if state := found.Status; state.Sync.Status != "Synced" || state.Health.Status != "Healthy" || state.Sync.Revision != commit {
			return fmt.Errorf("the application is %+v", state)
		}
		return nil
	})
}

// serve sends requests from outside of the cluster for a second, and compares
// the status of the Ingress with the address of the load balancer.
func (s *scene) serve(ctx context.Context) (string, error) {
	load, err := s.loadFor(ctx, "hello", time.Second, nil)
	if err != nil {
		return "", err
	}
	if load.Failures > 0 {
		return "", fmt.Errorf("%d of %d requests failed: %v", load.Failures, load.Requests, load.Errors)
	}
	address, err := s.node.BalancerAddress(ctx, runtimeRelease().namespace, "slipway-edge")
	if err != nil {
		return "", err
	}
	output, err := s.node.Kubectl(ctx, "get", "ingress", "shop", "-n", applicationNamespace, "-o", "jsonpath={.status.loadBalancer.ingress[0].ip}").Output()
	if err == nil && string(output) != address.String() {
		err = fmt.Errorf("the Ingress has the address %q, and the edge has %s", output, address)
	}
	return fmt.Sprintf("%d requests to %s, none failed", load.Requests, address), err
}

// change pushes a commit and waits until its greeting is served. It reports the
// time from the push to Synced; traffic follows after the rollout.
func (s *scene) change(ctx context.Context) (string, error) {
	commit, err := s.git.push("the shop shows welcome", map[string]string{"shop/shop.yaml": shop("welcome", "", "")})
	if err != nil {
		return "", err
	}
	began := time.Now()
	if err := s.awaitApplication(ctx, commit); err != nil {
		return "", err
	}
	took := time.Since(began)
	// Healthy means that new Pods are ready. Old ones may still respond while
	// their endpoints drain, so a mixed result is retried.
	return fmt.Sprintf("commit %s after %.1f s", commit[:12], took.Seconds()), s.until(ctx, func(ctx context.Context) error {
		load, err := s.loadFor(ctx, "welcome", time.Second, nil)
		if err == nil && load.Failures > 0 {
			err = fmt.Errorf("%d of %d requests failed: %v", load.Failures, load.Requests, load.Errors)
		}
		return err
	})
}

// upgrade changes the image tag of the runtime under traffic and requires that
// no request fails. It covers the rolling update of the edge: readiness,
// draining of connections, and GOAWAY on HTTP/2.
func (s *scene) upgrade(ctx context.Context) (string, error) {
	took := time.Duration(0)
	load, err := s.loadFor(ctx, "welcome", s.traffic, func() error {
		began := time.Now()
		_, err := s.join(ctx, "ACCESS_MODE_TUNNEL", "image.tag="+secondTag)
		took = time.Since(began)
		return err
	})
	if err != nil {
		return "", err
	}
	if load.Failures > 0 {
		return "", fmt.Errorf("%d of %d requests failed: %v", load.Failures, load.Requests, load.Errors)
	}
	// A load generator that stalled must not count as success.
	if load.Requests < 1000 {
		return "", fmt.Errorf("only %d requests were sent", load.Requests)
	}
	if err := s.allNew(ctx); err != nil {
		return "", err
	}
	return fmt.Sprintf("%.1f s, %d requests, 0 failed, the slowest took %s (%v)", took.Seconds(), load.Requests, load.Slowest.Round(time.Millisecond), load.Kinds), nil
}

// allNew waits until exactly mostPods Pods of the runtime exist and all have
// the second image. Helm returns when new Pods are ready, while old ones
// terminate.
func (s *scene) allNew(ctx context.Context) error {
	return s.until(ctx, func(ctx context.Context) error {
		images, err := s.node.Kubectl(ctx, "get", "pods", "-n", runtimeRelease().namespace, "-o", "jsonpath={.items[*].spec.containers[*].image}").Output()
		if want := strings.Repeat(imageRepository+":"+secondTag+" ", mostPods); err == nil && string(images)+" " != want {
			err = fmt.Errorf("the Pods are of %s", images)
		}
		return err
	})
}

// loadFor runs the load generator outside of the cluster: for a time, then
// during meanwhile if it is not nil, then for the same time again. The margins
// show that traffic works before and after the change and not only during it.
func (s *scene) loadFor(ctx context.Context, want string, around time.Duration, meanwhile func() error) (Load, error) {
	address, err := s.node.BalancerAddress(ctx, runtimeRelease().namespace, "slipway-edge")
	if err != nil {
		return Load{}, err
	}
	self, err := os.Executable()
	if err != nil {
		return Load{}, err
	}
	words := node.OutsideCommand(self, "load", "--address", address.String(), "--host", appHost, "--want", want, "--authorities", s.authority.file)
	// Not CommandContext: a canceled context would kill the generator before it
	// prints its result. SIGTERM below ends it in order, and the kernel kills
	// it if this process dies.
	command := exec.Command(words[0], words[1:]...)
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var output, problems bytes.Buffer
	command.Stdout, command.Stderr = &output, &problems
	if err := command.Start(); err != nil {
		return Load{}, err
	}
	err = rest(ctx, around)
	if err == nil && meanwhile != nil {
		err = errors.Join(meanwhile(), rest(ctx, around))
	}
	// The generator is stopped and waited for on every path, also after an
	// error.
	if err := errors.Join(err, command.Process.Signal(syscall.SIGTERM), command.Wait()); err != nil {
		return Load{}, fmt.Errorf("%w: %s", err, problems.String())
	}
	var load Load
	return load, json.Unmarshal(output.Bytes(), &load)
}

// rest waits for a duration, during which a measurement or the load runs.
func rest(ctx context.Context, duration time.Duration) error {
	timer := time.NewTimer(duration)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// removeApplication deletes the Application with all objects that it delivered,
// its namespace, and what the access modes needed. The Application goes first:
// its finalizer needs a running agent, and would block the deletion later.
func (s *scene) removeApplication(ctx context.Context) error {
	for _, words := range [][]string{
		{"delete", "application", application, "-n", runtimeRelease().namespace, "--wait", "--timeout=120s"},
		{"delete", "namespace", applicationNamespace, "--wait", "--timeout=120s"},
		{"delete", "crd", "httproutes.gateway.networking.k8s.io", "--timeout=120s"},
	} {
		if output, err := s.node.Kubectl(ctx, words...).CombinedOutput(); err != nil {
			return fmt.Errorf("kubectl %v: %w: %s", words, err, output)
		}
	}
	return s.stopGateway(ctx)
}

// shop returns the application's manifests with a greeting, further fields of
// the Deployment's metadata, and further variables of its container.
func shop(greeting, metadata, variables string) string {
	return fmt.Sprintf(shopManifest, greeting, webImage, appHost, metadata, variables)
}

// shopManifest is the format of shop. The Pods satisfy the restricted Pod
// Security Standard, and a change of the greeting causes a rollout.
const shopManifest = `apiVersion: apps/v1
kind: Deployment
metadata: {name: shop%[4]s}
spec:
  replicas: 2
  selector: {matchLabels: {app: shop}}
  template:
    metadata: {labels: {app: shop}}
    spec:
      automountServiceAccountToken: false
      securityContext: {runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}
      containers:
        - name: shop
          env: [{name: GREETING, value: %[1]s}%[5]s]
          image: %[2]s
          imagePullPolicy: Never
          ports: [{containerPort: 8080}]
          securityContext: {allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}}
          readinessProbe: {httpGet: {path: /, port: 8080}, periodSeconds: 1}
---
apiVersion: v1
kind: Service
metadata: {name: shop}
spec:
  selector: {app: shop}
  ports: [{port: 80, targetPort: 8080}]
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: shop}
spec:
  ingressClassName: slipway
  tls: [{hosts: [%[3]s], secretName: shop-tls}]
  rules:
    - host: %[3]s
      http:
        paths: [{path: /, pathType: Prefix, backend: {service: {name: shop, port: {number: 80}}}}]
`
