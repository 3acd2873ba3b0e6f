// Package expand puts parameters into the texts of an ApplicationSet.
//
// There are two forms, as in Argo CD. With goTemplate a text is a Go template
// with the functions of sprig, and normalize, slugify, toYaml, fromYaml and
// fromYamlArray. Without it {{name}} is the parameter of that name, and stays as
// it is when there is none.
//
// Templates run in our process, and whoever may write an ApplicationSet writes
// them. So it promises limits: on the length of a text and of its result, on the
// size of every value that a function gets or gives, on the work that one text
// causes and on the time. Loops count too. A template changes nothing: each gets
// a copy of the parameters.
//
// It refuses functions that read the environment or the network (env, expandenv,
// getHostByName), that give something else each time (rand..., uuidv4, keys and
// certificates) or take long on purpose (bcrypt, htpasswd, derivePassword):
// Applications would change without end. It refuses define, block and template:
// a text is one template.
package expand
