package loss

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// fate is what has to become of a rendered object.
type fate int

const (
	// applied: it is in the cluster.
	applied fate = iota
	// rejected: the API server does not accept it. The others are applied, an
	// error names it, and the Application is OutOfSync.
	rejected
	// blocking: the sync does not accept it and does nothing. An error names it,
	// and the Application is OutOfSync.
	blocking
	// refused: it cannot be planned. The sync does nothing, an error names it, and
	// the sync status is Unknown.
	refused
)

// document is one object of a repository, and its fate.
type document struct {
	// name is how errors name it. It is empty for one that has no name, which is
	// named by its kind.
	name string
	text string
	fate fate
}

// malformed are the ways in which documents are wrong. NAME is the name.
var malformed = []struct {
	text string
	fate fate
}{
	{"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: NAME\n", applied},
	{"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: NAME\n  annotations:\n  labels:\n", applied},
	{"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: NAME\n  annotations: {a: null}\n  labels: {b: null}\n", applied},
	{"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: NAME\n  namespace:\n  finalizers:\n  ownerReferences:\n  creationTimestamp:\ndata:\n", applied},
	{"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: NAME, annotations: {argocd.argoproj.io/sync-wave: null, argocd.argoproj.io/hook: null}}\n", applied},
	{"apiVersion: v1\nkind: Secret\nmetadata: {name: NAME}\ndata:\nstringData:\n", applied},
	{"apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: ConfigMap, metadata: {name: NAME, labels: null}}\n", applied},
	{"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: NAME, labels: {x: once, x: again}}\n", applied},
	{"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: NAME, labels: {x: 1}}\n", refused},
	{"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: NAME, annotations: {x: true}}\n", refused},
	{"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: NAME, labels: [x]}\n", refused},
	{"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: NAME, namespace: 7}\n", refused},
	{"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: NAME, annotations: {argocd.argoproj.io/hook: PreSinc}}\n", refused},
	{"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: NAME, annotations: {argocd.argoproj.io/sync-wave: first}}\n", refused},
	{"apiVersion: unheard.example/v1\nkind: Gadget\nmetadata: {name: NAME}\n", blocking},
	{"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: NAME, namespace: does-not-exist}\n", rejected},
	{"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: NAME}\ndata: {value: {not: text}}\n", rejected},
	{"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: NAME}\ndate: {value: typo}\n", rejected},
	{"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: NAME_}\n", rejected},
}

// nameless are documents that no error can name but by their kind.
var nameless = []string{
	"apiVersion: v1\nkind: ConfigMap\nmetadata:\n",
	"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: null}\n",
	"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: 5}\n",
	"apiVersion: v1\nkind: ConfigMap\nmetadata: {generateName: a-}\n",
	"apiVersion: v1\nkind: ConfigMap\n",
}

// generate makes documents, of which some are malformed. Names are unique but
// for one that may be there twice.
func generate(seed uint64) []document {
	dice := rand.New(rand.NewPCG(seed, 17))
	var all []document
	for i := range 1 + dice.IntN(6) {
		form := malformed[dice.IntN(len(malformed))]
		if dice.IntN(3) > 0 {
			form = malformed[dice.IntN(8)] // most are right
		}
		name := fmt.Sprintf("object-%d", i)
		all = append(all, document{name: name, text: strings.ReplaceAll(form.text, "NAME", name), fate: form.fate})
	}
	if dice.IntN(6) == 0 {
		all = append(all, document{text: nameless[dice.IntN(len(nameless))], fate: refused})
	}
	if dice.IntN(5) == 0 {
		all = append(all, all[0])
	}
	return all
}

// manifests is the text of documents, in one file.
func manifests(documents []document) string {
	var texts []string
	for _, one := range documents {
		texts = append(texts, one.text)
	}
	return strings.Join(texts, "---\n")
}

// worst is the fate that decides about the Application.
func worst(documents []document) fate {
	all := applied
	for _, one := range documents {
		all = max(all, one.fate)
	}
	return all
}
