# SPDX-License-Identifier: Apache-2.0
"""Export stage: writes in, files of other programs' formats out."""
