// Package embedtest has deterministic embedders for tests of what stands around an embedder, and faults on demand.
//
// [New] makes a text embedder without a model: a text is a bag of words, every word has its own pseudo-random direction,
// and the vector is the sum of those directions at unit length. So equal texts have equal vectors on every machine and in
// every run, texts that share words are near each other, and texts that share none are almost orthogonal: a search over
// such vectors finds what a person expects from the words. It knows no meaning: "car" is as far from "auto" as from "tea".
// [NewImages] does the same for pictures by their bytes: equal bytes, equal vector; anything else is far away.
//
// An [Embedder] counts its calls and keeps the inputs that it was given, so that a test can say what was embedded and what
// was not. A [Fault] makes it fail, as data:
//
//	e := embedtest.New(384)
//	e.Inject(embedtest.Fault{Match: "poison", Permanent: true})             // these texts never succeed
//	e.Inject(embedtest.Fault{Kind: embedtest.FailCall, Times: 2})           // the first two calls fail whole
//	e.Inject(embedtest.Fault{Match: "odd", Kind: embedtest.NaN})            // the vector has a NaN
//	e.Inject(embedtest.Fault{Kind: embedtest.Slow, Delay: 5 * time.Second}) // every call takes 5 s more
package embedtest
