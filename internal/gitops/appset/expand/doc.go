// Package expand expands the parameters in the texts of an ApplicationSet.
//
// There are two forms, as in Argo CD. With goTemplate a text is a Go template
// with the functions of sprig, and normalize, slugify, toYaml, fromYaml and
// fromYamlArray. Without it {{name}} is the parameter of that name, and stays
// unchanged if there is none.
//
// Templates run in our process, and everyone who may write an ApplicationSet
// writes them. So the package promises limits: on the length of a text and of
// its result, on the size of the arguments and results of every function, on
// the work of one text, and on the time. Loops and calls of templates count too.
// A template changes nothing: each gets a copy of the parameters.
//
// The functions are those of Argo CD: sprig without env, expandenv and
// getHostByName. Random ones give another value in each generation, as there.
// A text can define templates with define and block, for itself only. Slugs are
// those of Argo CD in all scripts (decision 0091).
package expand
