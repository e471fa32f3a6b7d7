# SPDX-License-Identifier: Apache-2.0
# Writes the bytes of file IN as the C array of proto/descriptors.h to OUT.
file(READ ${IN} hex HEX)
string(LENGTH "${hex}" digits)
math(EXPR bytes "${digits} / 2")
string(REGEX REPLACE "(..)" "0x\\1," body "${hex}")
string(REPEAT "0x..," 20 line)
string(REGEX REPLACE "(${line})" "\\1\n" body "${body}")
file(WRITE ${OUT} "#include \"proto/descriptors.h\"\n\n"
    "const size_t ps_descriptor_set_len = ${bytes};\n"
    "const uint8_t ps_descriptor_set[] = {\n${body}\n};\n")
