package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"

	"slipway.dev/slipway/test/e2e/node"
)

// inventory is the set of everything that exists, as lines that are comparable
// between two points in time.
type inventory map[string]bool

// settled is how long the inventory has to stay unchanged until the cluster
// counts as complete. Controllers create objects such as ServiceAccounts and
// ConfigMaps during its first seconds, and they must not count as left over.
const settled = 3 * time.Second

// takeFirst records the inventory of the empty cluster in s.before, once two
// inventories in a row are equal.
func (s *scene) takeFirst(ctx context.Context) (err error) {
	if s.before, err = s.takeInventory(ctx); err != nil {
		return err
	}
	return s.until(ctx, func(ctx context.Context) error {
		// The kubelet creates its lease independently of the Ready condition,
		// so it may still be missing.
		if _, err := s.node.Client.CoordinationV1().Leases("kube-node-lease").Get(ctx, node.Name, metav1.GetOptions{}); err != nil {
			return err
		}
		if err := rest(ctx, settled); err != nil {
			return err
		}
		before := s.before
		if s.before, err = s.takeInventory(ctx); err != nil {
			return err
		}
		if !maps.Equal(before, s.before) {
			return errors.New("the cluster is not complete yet")
		}
		return nil
	})
}

// takeInventory lists the objects of every kind in the API server, the
// containers, and the mounts, links and iptables rules of the node.
func (s *scene) takeInventory(ctx context.Context) (inventory, error) {
	found := inventory{}
	if err := s.listObjects(ctx, "", found); err != nil {
		return nil, err
	}
	containers, err := s.node.Containers(ctx)
	if err != nil {
		return nil, err
	}
	for _, one := range containers {
		found["container "+one] = true
	}
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(mounts)) {
		if fields := strings.Fields(line); len(fields) > 2 {
			found["mount "+fields[1]] = true
		}
	}
	// Links and rules show Pods and Services that the kubelet or kube-proxy
	// failed to clean up, although their objects are gone.
	for _, words := range [][]string{{"ip", "-oneline", "link"}, {"iptables-save", "-t", "nat"}, {"iptables-save", "-t", "filter"}} {
		output, err := exec.CommandContext(ctx, words[0], words[1:]...).Output()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", words[0], err)
		}
		for line := range strings.Lines(string(output)) {
			if one := stable(words[0], line); one != "" {
				found[one] = true
			}
		}
	}
	return found, nil
}

// stable returns the part of a line about a link or a rule that does not change
// between two runs of the command, or an empty string for a line to ignore.
// Interface indexes and packet counters change all the time.
func stable(command, line string) string {
	fields := strings.Fields(line)
	switch {
	case len(fields) < 2 || strings.HasPrefix(line, "#"):
		return ""
	case command == "ip":
		name, _, _ := strings.Cut(strings.TrimSuffix(fields[1], ":"), "@")
		if name == "pods0" {
			return "" // the bridge stays when the last Pod is gone, as with every network of this kind
		}
		return "link " + name
	case strings.HasPrefix(line, "-A"):
		return "rule " + strings.TrimSpace(line)
	default:
		return ""
	}
}

// listObjects adds the objects of every kind to an inventory, for one namespace
// or, with an empty one, for all and for cluster-scoped kinds. It reads
// metadata only.
func (s *scene) listObjects(ctx context.Context, namespace string, into inventory) error {
	client, err := metadata.NewForConfig(s.node.REST)
	if err != nil {
		return err
	}
	requests, err := discovery.NewDiscoveryClientForConfig(s.node.REST)
	if err != nil {
		return err
	}
	// Discovery runs each time: the CRDs of the charts come and go.
	lists, err := requests.ServerPreferredResources()
	if err != nil {
		return err
	}
	for _, list := range lists {
		group, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return err
		}
		for _, kind := range list.APIResources {
			if !slices.Contains(kind.Verbs, "list") || (namespace != "" && !kind.Namespaced) || passing(kind.Name) {
				continue
			}
			objects, err := client.Resource(group.WithResource(kind.Name)).Namespace(namespace).List(ctx, metav1.ListOptions{})
			if err != nil {
				return fmt.Errorf("list %s: %w", kind.Name, err)
			}
			for _, object := range objects.Items {
				into[describe(group.WithResource(kind.Name).GroupResource(), &object)] = true
			}
		}
	}
	return nil
}

// passing reports whether objects of a kind come and go by themselves. Events
// expire after an hour, and componentstatuses are computed and not stored.
func passing(kind string) bool { return kind == "events" || kind == "componentstatuses" }

// describe returns the kind, namespace and name of an object on one line. The
// UID is left out: an object that was recreated is not left over.
func describe(kind schema.GroupResource, object *metav1.PartialObjectMetadata) string {
	if object.Namespace == "" {
		return kind.String() + " " + object.Name
	}
	return kind.String() + " " + object.Namespace + "/" + object.Name
}

// leftIn lists the objects in a namespace after an uninstall. Objects for which
// known returns false are an error that names all of them.
func (s *scene) leftIn(ctx context.Context, namespace string, known func(name string) bool) (left []string, err error) {
	found := inventory{}
	if err := s.listObjects(ctx, namespace, found); err != nil {
		return nil, err
	}
	var surprises []string
	for _, one := range slices.Sorted(maps.Keys(found)) {
		// "secrets slipway/x" becomes "secrets/x": the namespace is implied.
		name := strings.Replace(one, " "+namespace+"/", "/", 1)
		if name == "configmaps/kube-root-ca.crt" || name == "serviceaccounts/default" {
			continue // every namespace has them
		}
		left = append(left, name)
		if !known(name) {
			surprises = append(surprises, name)
		}
	}
	if len(surprises) > 0 {
		return nil, fmt.Errorf("the release has left %s", strings.Join(surprises, ", "))
	}
	return left, nil
}

// compare waits until the inventory equals the first one, and returns the
// differences in both directions otherwise. Deletion is asynchronous, so the
// first comparison may fail.
func (s *scene) compare(ctx context.Context) (string, error) {
	err := s.until(ctx, func(ctx context.Context) error {
		after, err := s.takeInventory(ctx)
		if err != nil {
			return err
		}
		var problems []error
		for _, one := range slices.Sorted(maps.Keys(after)) {
			if !s.before[one] {
				problems = append(problems, errors.New("left: "+one))
			}
		}
		for _, one := range slices.Sorted(maps.Keys(s.before)) {
			if !after[one] {
				problems = append(problems, errors.New("gone: "+one))
			}
		}
		return errors.Join(problems...)
	})
	return fmt.Sprintf("%d objects, mounts, links and rules as before", len(s.before)), err
}
