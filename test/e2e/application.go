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

const (
	application          = "shop"
	applicationNamespace = "shop"
)

// deliver has the agent sync an application, and waits for it through the
// platform.
func (s *scene) deliver(ctx context.Context) (string, error) {
	commit, err := s.git.push("the shop opens", map[string]string{"shop/shop.yaml": fmt.Sprintf(shopManifest, "hello", webImage, appHost)})
	if err != nil {
		return "", err
	}
	certificate, key, err := s.authority.issue(appHost)
	if err != nil {
		return "", err
	}
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

// awaitApplication waits until the platform has the application at a commit.
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

// serve asks the application from outside of the cluster, and looks at the status
// of its Ingress.
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
		err = fmt.Errorf("the Ingress tells the address %q, and the edge has %s", output, address)
	}
	return fmt.Sprintf("%d requests to %s, none failed", load.Requests, address), err
}

// change pushes a commit, and waits until its greeting is served.
func (s *scene) change(ctx context.Context) (string, error) {
	commit, err := s.git.push("the shop says welcome", map[string]string{"shop/shop.yaml": fmt.Sprintf(shopManifest, "welcome", webImage, appHost)})
	if err != nil {
		return "", err
	}
	began := time.Now()
	if err := s.awaitApplication(ctx, commit); err != nil {
		return "", err
	}
	took := time.Since(began)
	return fmt.Sprintf("commit %s after %.1f s", commit[:12], took.Seconds()), s.until(ctx, func(ctx context.Context) error {
		load, err := s.loadFor(ctx, "welcome", time.Second, nil)
		if err == nil && load.Failures > 0 {
			err = fmt.Errorf("%d of %d requests failed: %v", load.Failures, load.Requests, load.Errors)
		}
		return err
	})
}

// upgrade changes the image of the runtime while clients outside send requests.
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
	if load.Requests < 1000 {
		return "", fmt.Errorf("only %d requests were sent", load.Requests)
	}
	if err := s.allNew(ctx); err != nil {
		return "", err
	}
	return fmt.Sprintf("%.1f s, %d requests, 0 failed, the slowest took %s (%v)", took.Seconds(), load.Requests, load.Slowest.Round(time.Millisecond), load.Kinds), nil
}

// allNew wants every Pod of the runtime to be one of the second image.
func (s *scene) allNew(ctx context.Context) error {
	return s.until(ctx, func(ctx context.Context) error {
		images, err := s.node.Kubectl(ctx, "get", "pods", "-n", runtimeRelease().namespace, "-o", "jsonpath={.items[*].spec.containers[*].image}").Output()
		if want := strings.Repeat(imageRepository+":"+secondTag+" ", mostPods); err == nil && string(images)+" " != want {
			err = fmt.Errorf("the Pods are of %s", images)
		}
		return err
	})
}

// loadFor sends requests from outside: for a time, then while something is done,
// then for the same time again.
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
	if err := errors.Join(err, command.Process.Signal(syscall.SIGTERM), command.Wait()); err != nil {
		return Load{}, fmt.Errorf("%w: %s", err, problems.String())
	}
	var load Load
	return load, json.Unmarshal(output.Bytes(), &load)
}

// rest lets time pass: what is measured happens meanwhile.
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

// removeApplication deletes the application with everything that it has delivered.
func (s *scene) removeApplication(ctx context.Context) error {
	for _, words := range [][]string{
		{"delete", "application", application, "-n", runtimeRelease().namespace, "--wait", "--timeout=120s"},
		{"delete", "namespace", applicationNamespace, "--wait", "--timeout=120s"},
		{"delete", "crd", "virtualservices.networking.istio.io", "httproutes.gateway.networking.k8s.io", "--timeout=120s"},
	} {
		if output, err := s.node.Kubectl(ctx, words...).CombinedOutput(); err != nil {
			return fmt.Errorf("kubectl %v: %w: %s", words, err, output)
		}
	}
	return nil
}

// shopManifest takes the greeting, the image and the host.
const shopManifest = `apiVersion: apps/v1
kind: Deployment
metadata: {name: shop}
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
          env: [{name: GREETING, value: %s}]
          image: %s
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
