package preflight

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// nodeNeed is the required size of a node.
type nodeNeed struct{ cpu, memory resource.Quantity }

// documentedNeed is the documented size (R12), in decimal megabytes.
func documentedNeed() nodeNeed {
	return nodeNeed{resource.MustParse("2"), resource.MustParse("5000M")}
}

// ownNeed is the sum of the requests of agent and edge.
func ownNeed() nodeNeed {
	return nodeNeed{resource.MustParse("250m"), resource.MustParse("512Mi")}
}

// met reports whether a node is large enough.
func (n nodeNeed) met(has corev1.ResourceList) bool {
	return has.Cpu().Cmp(n.cpu) >= 0 && has.Memory().Cmp(n.memory) >= 0
}

// missing describes what a node lacks.
func (n nodeNeed) missing(node corev1.Node) string {
	var parts []string
	if has := node.Status.Capacity.Cpu(); has.Cmp(n.cpu) < 0 {
		parts = append(parts, fmt.Sprintf("has %s of %s CPU", has, n.cpu.String()))
	}
	if has := node.Status.Capacity.Memory(); has.Cmp(n.memory) < 0 {
		parts = append(parts, fmt.Sprintf("has %s of %s memory", has, n.memory.String()))
	}
	return node.Name + " " + strings.Join(parts, " and ")
}

// checkNodeSize is P3: a node has 2 CPU and 5000 MB, which are the sizes that
// clouds sell: what the system reserves of them does not count. It warns if a
// node only fits the runtime itself, in what is left for Pods.
func checkNodeSize(_ context.Context, in *CheckContext, out *Report) {
	out.inspect("CPU and memory of the nodes")
	nodes, err := in.nodes()
	if err != nil {
		out.readError("nodes", err)
		return
	}
	evaluateNodes(nodes, out)
}

// evaluateNodes checks the schedulable nodes.
func evaluateNodes(nodes []corev1.Node, out *Report) {
	if len(nodes) == 0 {
		out.fail("nodes", "the cluster has no node", "add one")
		return
	}
	// One large node is sufficient: Pods of the runtime need not be spread.
	wanted, enough := documentedNeed(), ownNeed()
	enoughOn := ""
	var lacks []string
	for _, node := range nodes {
		// Taints are ignored: the chart's tolerations are configurable.
		if node.Spec.Unschedulable {
			lacks = append(lacks, node.Name+" takes no Pods (cordoned)")
			continue
		}
		if wanted.met(node.Status.Capacity) {
			out.inspect("%s is large enough", node.Name)
			return
		}
		if enough.met(node.Status.Allocatable) {
			enoughOn = node.Name
		}
		lacks = append(lacks, wanted.missing(node))
	}
	// All nodes are listed with what they lack, up to six.
	message := "no node has 2 CPU and 5000 MB: " + shorten(lacks)
	if enoughOn != "" {
		out.warn("nodes", message, "the runtime itself fits on "+enoughOn+"; add a larger node before many applications are delivered")
		return
	}
	out.fail("nodes", message, "add a node with 2 CPU and 5000 MB")
}

// shorten joins names, at most six of them.
func shorten(names []string) string {
	const shown = 6
	if len(names) <= shown {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:shown], ", "), len(names)-shown)
}
