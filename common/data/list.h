/* SPDX-License-Identifier: Apache-2.0 */
/* list.h - every data source, assignment and transform of this build, one per line. No include
 * guard: define PS_DATA_SOURCE(name), PS_ASSIGN(name) or PS_TRANSFORM(name) before including
 * it. */
#ifdef PS_DATA_SOURCE
PS_DATA_SOURCE(glyphs)
PS_DATA_SOURCE(mnist)
PS_DATA_SOURCE(cifar10)
PS_DATA_SOURCE(simlin)
PS_DATA_SOURCE(csv)
PS_DATA_SOURCE(libsvm)
PS_DATA_SOURCE(criteo)
PS_DATA_SOURCE(slots)
PS_DATA_SOURCE(ngram)
PS_DATA_SOURCE(skipgram)
PS_DATA_SOURCE(foreign)
PS_DATA_SOURCE(text)
#endif
#ifdef PS_ASSIGN
PS_ASSIGN(iid)
PS_ASSIGN(duplicate)
PS_ASSIGN(uneven)
PS_ASSIGN(modulo)
PS_ASSIGN(whole)
#endif
#ifdef PS_TRANSFORM
PS_TRANSFORM(normalise)
PS_TRANSFORM(one_hot)
PS_TRANSFORM(crop)
PS_TRANSFORM(flip)
PS_TRANSFORM(shuffle)
PS_TRANSFORM(in_order)
PS_TRANSFORM(non_iid)
PS_TRANSFORM(dirichlet)
#endif
